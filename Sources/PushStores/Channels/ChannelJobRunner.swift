import PushCore

/// Carries out one request of the queue, and builds its answer.
final class ChannelJobRunner {
  typealias Then = ChannelRegistry.Then<ChannelReply>

  private let registry: ChannelRegistry

  init(_ registry: ChannelRegistry) {
    self.registry = registry
  }

  /// - Parameter isRepeated: an earlier delivery of the request may have been carried out.
  func run(_ job: ChannelJob, isRepeated: Bool, then: @escaping Then) {
    switch job.task {
    case .create(let name, let storage):
      guard let name = name ?? ChannelName(ofRequest: job.id) else { preconditionFailure("the parser checked it") }
      settle(job, name, .create(storage, request: job.id), then)
    case .ensure(let name, let storage):
      settle(job, name, .ensure(storage), then)
    case .read(let subject):
      resolve(job, subject, then) { [weak self] id, name in self?.read(job, id, name, then) }
    case .delete(let subject):
      resolve(job, subject, then) { [weak self] id, name in
        self?.delete(job, id, name, isRepeated: isRepeated, then)
      }
    case .list:
      list(job, then)
    }
  }

  private func settle(
    _ job: ChannelJob, _ name: ChannelName, _ wish: ChannelEnsureState.Wish, _ then: @escaping Then
  ) {
    registry.settle(name, in: job.scope, wish) { result in
      then(
        result.map { settled in
          var reply = ChannelReply(to: job)
          reply.name = name
          reply.channel = settled?.id
          reply.storage = settled?.entry.storage
          reply.isCreated = settled.map { $0.origin != .found || $0.entry.request?.hasBytes(of: job.id) == true }
          return reply
        })
    }
  }

  private func resolve(
    _ job: ChannelJob, _ subject: ChannelJob.Subject, _ then: @escaping Then,
    _ body: @escaping (ChannelID, ChannelName?) -> Void
  ) {
    switch subject {
    case .channel(let id):
      body(id, nil)
    case .name(let name):
      registry.find(name, in: job.scope) { result in
        switch result {
        case .success(let id): body(id, name)
        case .failure(let failure): then(.failure(failure))
        }
      }
    }
  }

  private func read(_ job: ChannelJob, _ id: ChannelID, _ name: ChannelName?, _ then: @escaping Then) {
    registry.read(id, in: job.scope) { result in
      then(
        result.map { read in
          var reply = ChannelReply(to: job)
          reply.channel = id
          reply.name = name
          reply.storage = read.storage
          reply.requestID = read.requestID
          return reply
        })
    }
  }

  private func delete(
    _ job: ChannelJob, _ id: ChannelID, _ name: ChannelName?, isRepeated: Bool, _ then: @escaping Then
  ) {
    var reply = ChannelReply(to: job)
    reply.channel = id
    reply.name = name
    registry.delete(id, in: job.scope) { result in
      switch result {
      case .success(let requestID):
        reply.requestID = requestID
        then(.success(reply))
      case .failure(.apns(let failure)) where failure.isUnknownChannel && isRepeated:
        // An earlier delivery of this request deleted it, and its answer was lost.
        then(.success(reply))
      case .failure(let failure):
        then(.failure(failure))
      }
    }
  }

  private func list(_ job: ChannelJob, _ then: @escaping Then) {
    registry.list(job.scope) { [weak registry] listed in
      registry?.snapshot(job.scope) { known in
        // Without Redis the ids are returned without names.
        let names = try? known.get()
        then(
          listed.map { list in
            var reply = ChannelReply(to: job)
            reply.channels = list.ids.map { .init(channel: $0, name: names?.name(of: $0)) }
            reply.requestID = list.requestID
            return reply
          })
      }
    }
  }
}
