import PushCore

/// Starts of activities: a step's devices are those whose updates come on a channel, those that have tokens, and those that get the
/// fallback alert. Which is which is fixed with the step's pages, so that a repeated step makes the same ones.
extension ExpansionRunner {
  /// The devices that a step found, each in one part, ascending.
  struct Parts {
    /// The registry's epoch when they were read.
    var epoch: UInt64 = 0
    /// Redis' before they were read.
    var generation: UInt64
    var usual: [UInt32] = []
    /// Of a start: its updates come on this channel to these.
    var subscribed: (channel: ChannelID, ordinals: [UInt32])?
    /// They are sent the start's fallback instead.
    var alerted: [UInt32] = []

    /// All devices, in the order of their pages.
    var ordinals: [UInt32] { (subscribed?.ordinals ?? []) + usual + alerted }

    /// - Parameter fingerprints: of `ordinals`.
    func pages(of size: Int, fingerprints: [UInt32]) -> [PageOrdinals] {
      var rest = fingerprints[...]
      func pages(_ ordinals: [UInt32], _ kind: PageOrdinals.Kind) -> [PageOrdinals] {
        stride(from: 0, to: ordinals.count, by: size).map { start in
          let part = ordinals[start..<min(start + size, ordinals.count)]
          defer { rest = rest.dropFirst(part.count) }
          return PageOrdinals(part, epoch: epoch, fingerprints: rest.prefix(part.count), kind)
        }
      }
      return (subscribed.map { pages($0.ordinals, .channel($0.channel)) } ?? []) + pages(usual, .usual)
        + pages(alerted, .fallback)
    }
  }

  /// The attributes type of a start with a fallback; nil: the job is none.
  static func fallbackType(_ job: borrowing PushJob) throws(JobError) -> String? {
    guard !job.fallback.title.isEmpty else { return nil }
    return try ActivityPayload(Array(job.bytes[job.payload.range])).attributesType
  }

  /// - Parameter parts: all of them usual.
  func split(
    _ delivery: ExpansionDelivery, _ step: Step, _ parts: Parts, startOf id: ActivityID,
    then: @escaping (Parts) -> Void
  ) {
    splitFallback(delivery, step, parts) { [self] parts in
      activities.state(id, in: step.scope) { [self] result in
        guard !delivery.isGone else { return }
        switch result {
        case .failure(let failure): later(delivery, step, ReadingFailure(failure))
        case .success(let activity):
          guard let channel = activity?.channel else { return then(parts) }
          reader.split(parts.usual, by: .withChannels, in: step.scope) { [self] result in
            guard !delivery.isGone else { return }
            switch result {
            case .failure(let failure): later(delivery, step, ReadingFailure(failure))
            case .success(let (able, others)):
              then(
                Parts(
                  epoch: parts.epoch, generation: parts.generation, usual: others, subscribed: (channel, able),
                  alerted: parts.alerted))
            }
          }
        }
      }
    }
  }

  private func splitFallback(
    _ delivery: ExpansionDelivery, _ step: Step, _ parts: Parts, then: @escaping (Parts) -> Void
  ) {
    guard let type = step.fallbackType else { return then(parts) }
    reader.split(parts.usual, by: .toStart(type), in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(delivery, step, ReadingFailure(failure))
      case .success(let (able, others)):
        then(Parts(epoch: parts.epoch, generation: parts.generation, usual: able, alerted: others))
      }
    }
  }
}

extension AudienceQuery {
  /// Those that have a push-to-start token for an attributes type.
  static func toStart(_ type: String) -> AudienceQuery { .sets([.hasPushToStart(type), .hasPushToStart("*")]) }

  /// Those whose system has broadcast channels: iOS 18 or later.
  static var withChannels: AudienceQuery { .filter(.leaf(.osAtLeast(OSVersion(major: 18)))) }
}
