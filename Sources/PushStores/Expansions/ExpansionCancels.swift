import PushCore
import PushIO
import PushLane

/// The end of an activity's update or end that was cancelled. If nothing of it may have been sent, the activity goes on from what was before;
/// else it stays the newest, and its outcome says so. Until that is decided nobody is sent its state any more: who should have been is sent
/// the newest one now.
extension ExpansionRunner {
  private static let membersAtOnce = 200

  private struct Cancelled {
    let step: Step
    let activity: ActivityID
    /// The job's.
    let revision: UInt32
    let progress: ExpansionProgress
    let delivery: ExpansionDelivery
    let later: (RedisClient.Failure) -> Void
    let then: (String?, [Publish]) -> Void
  }

  /// - Parameter then: called with a detail for the job's outcome, and with the broadcasts to publish before it.
  func endCancelled(
    _ progress: ExpansionProgress, _ step: Step, _ activity: ActivityID, revision: UInt32,
    _ delivery: ExpansionDelivery,
    orElse later: @escaping (RedisClient.Failure) -> Void, then: @escaping (String?, [Publish]) -> Void
  ) {
    let job = Cancelled(
      step: step, activity: activity, revision: revision, progress: progress, delivery: delivery, later: later,
      then: then)
    lookForTaken(job) { [self] isLive, isTaken in
      activities.takeBack(
        activity, in: step.scope, number: revision, mayReach: progress.mayHaveReached, isLive: isLive, isTaken: isTaken
      ) { [self] body in
        isJob(body, step)
      } then: { [self] result in
        guard !delivery.isGone else { return }
        switch result {
        case .failure(let failure): later(ReadingFailure(failure).redis)
        case .success(.isOver): then(nil, [])
        // What is newer may be cancelled, too.
        case .success(.isOlder):
          guard progress.mayHaveReached else { return then(nil, []) }
          keep(job, as: .former) { then($0, []) }
        case .success(.restored):
          lookForGivenWay(job) { [self] gaveWay in
            sendOwed(job, stays: false, gaveWay: gaveWay) { [self] in broadcastRestored(job) }
          }
        case .success(.stays(let isEnd)):
          keep(job, as: isEnd ? .end : .state) { [self] detail in
            sendOwed(job, stays: true, gaveWay: false) { then(detail, []) }
          }
        }
      }
    }
  }

  private func keep(_ job: Cancelled, as kept: ExpansionProgress.Kept, then: @escaping (String?) -> Void) {
    store.keep(job.step.job, as: kept) { result in
      guard !job.delivery.isGone else { return }
      if case .failure(let failure) = result { return job.later(failure) }
      then(kept.detail)
    }
  }

  /// The same of an end for some devices, for whom the activity goes on.
  func endCancelledLeave(
    _ progress: ExpansionProgress, _ step: Step, _ activity: ActivityID, revision: UInt32,
    _ delivery: ExpansionDelivery,
    orElse later: @escaping (RedisClient.Failure) -> Void, then: @escaping (String?, [Publish]) -> Void
  ) {
    let job = Cancelled(
      step: step, activity: activity, revision: revision, progress: progress, delivery: delivery, later: later,
      then: then)
    guard !progress.mayHaveReached, let audience = step.audience else { return keep(job, as: .leave) { then($0, []) } }
    reader.read(
      audience, in: step.scope, from: 0, maximum: Limits.targetsMaximum, unixMilliseconds: progress.begun
    ) { [self] part in
      guard !delivery.isGone else { return }
      switch part {
      case .failed(let failure): later(failure.redis)
      case .refused(let text): later(ReadingFailure(unreadable: text).redis)
      case .found(let ordinals, _, _, _):
        devices.fingerprints(of: ordinals, in: step.scope) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): later(ReadingFailure(failure).redis)
          case .success(let fingerprints):
            activities.comeBack(
              ordinals, devices: fingerprints, to: activity, in: step.scope, number: revision
            ) { [self] result in
              guard !delivery.isGone else { return }
              switch result {
              case .failure(let failure): later(ReadingFailure(failure).redis)
              case .success(nil): keep(job, as: .leave) { then($0, []) }
              case .success(let owed?): publish(owed[...], job) { then(nil, []) }
              }
            }
          }
        }
      }
    }
  }

  private func isJob(_ body: [UInt8], _ step: Step) -> Bool {
    var job = PushJob()
    guard let other = try? read(body, MessageMetadata(), into: &job) else { return false }
    return other.job == step.job
  }

  /// A job was refused. If its activity's end was cancelled, and may turn out not to have been sent, the job waits for that.
  func unlessEndIsCancelled(_ delivery: ExpansionDelivery, _ step: Step, then: @escaping () -> Void) {
    let age = loop.now.unixMilliseconds - delivery.firstSeen
    guard let id = step.activity, age < settings.retry.ageMaximumSeconds * 1_000 else { return then() }
    activities.newest(id, in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      var job = PushJob()
      guard case .success(let newest?) = result, newest.activity.content?.isEnd == true,
        let end = try? read(newest.body, MessageMetadata(), into: &job)
      else {
        if case .failure(let failure) = result { return later(delivery, step, ReadingFailure(failure)) }
        return then()
      }
      store.progress(end.job) { [self] result in
        guard !delivery.isGone else { return }
        switch result {
        case .failure(let failure): again(delivery, step, failure.text)
        case .success(let progress):
          guard let progress, progress.isCancelled, progress.phase != .completed else { return then() }
          wait(delivery, seconds: Topology.expansionDelaysSeconds[0])
          self.end(step.job)
        }
      }
    }
  }

  // MARK: - Members

  /// Whether there are live members, and whether one was sent the job's state by a late push.
  private func lookForTaken(_ job: Cancelled, then: @escaping (Bool, Bool) -> Void) {
    if job.progress.mayHaveReached { return then(true, true) }
    look(job, after: nil, isLive: false, then)
  }

  private func look(
    _ job: Cancelled, after: UInt32?, isLive: Bool, _ then: @escaping (Bool, Bool) -> Void
  ) {
    live(job, after: after) { [self] live in
      guard !live.ordinals.isEmpty else { return then(isLive, false) }
      activities.members(of: job.activity, in: job.step.scope, live.ordinals) { [self] result in
        guard !job.delivery.isGone else { return }
        switch result {
        case .failure(let failure): job.later(ReadingFailure(failure).redis)
        case .success(let members):
          let isTaken = members.contains { $0.map { $0.sent == job.revision && $0.way == .lateTaken } ?? false }
          if isTaken || !live.hasMore { return then(true, isTaken) }
          look(job, after: live.ordinals.last, isLive: true, then)
        }
      }
    }
  }

  private func live(_ job: Cancelled, after: UInt32?, then: @escaping (ActivityRegistry.Live) -> Void) {
    activities.live(job.activity, in: job.step.scope, after: after, limit: ExpansionRunner.membersAtOnce) { result in
      guard !job.delivery.isGone else { return }
      switch result {
      case .failure(let failure): job.later(ReadingFailure(failure).redis)
      case .success(let live): then(live)
      }
    }
  }

  /// Whether pushes of what is the newest again ended because the cancelled one was newer, or still will.
  private func lookForGivenWay(_ job: Cancelled, then: @escaping (Bool) -> Void) {
    activities.newest(job.activity, in: job.step.scope) { [self] result in
      guard !job.delivery.isGone else { return }
      var before = PushJob()
      guard case .success(let newest?) = result, let step = try? read(newest.body, MessageMetadata(), into: &before)
      else {
        if case .failure(let failure) = result { return job.later(RedisClient.Failure(text: "\(failure)")) }
        return then(false)
      }
      store.progress(step.job) { result in
        guard !job.delivery.isGone else { return }
        switch result {
        case .failure(let failure): job.later(failure)
        case .success(let progress): then(progress?.hasGivenWay ?? true)
        }
      }
    }
  }

  /// Publishes late pushes of the newest state to the members that count as having this job's.
  private func sendOwed(
    _ job: Cancelled, stays: Bool, gaveWay: Bool, after: UInt32? = nil, then: @escaping () -> Void
  ) {
    live(job, after: after) { [self] live in
      guard let last = live.ordinals.last else { return then() }
      activities.owed(
        live.ordinals, of: job.activity, in: job.step.scope, number: job.revision, stays: stays, gaveWay: gaveWay
      ) { [self] result in
        guard !job.delivery.isGone else { return }
        switch result {
        case .failure(let failure): job.later(ReadingFailure(failure).redis)
        case .success(let owed):
          publish(owed.body, to: owed.members, job) { [self] in
            if live.hasMore { sendOwed(job, stays: stays, gaveWay: gaveWay, after: last, then: then) } else { then() }
          }
        }
      }
    }
  }

  private func publish(
    _ owed: ArraySlice<(body: [UInt8], members: [ActivityRegistry.Owed])>, _ job: Cancelled, then: @escaping () -> Void
  ) {
    guard let first = owed.first else { return then() }
    publish(first.body, to: first.members, job) { [self] in publish(owed.dropFirst(), job, then: then) }
  }

  private func publish(
    _ body: [UInt8], to members: [ActivityRegistry.Owed], _ job: Cancelled, then: @escaping () -> Void
  ) {
    if members.isEmpty { return then() }
    devices.epoch(in: job.step.scope) { [self] result in
      guard !job.delivery.isGone else { return }
      switch result {
      case .failure(let failure): job.later(ReadingFailure(failure).redis)
      case .success(let epoch):
        devices.records(of: members.map(\.ordinal), epoch: epoch, in: job.step.scope) { [self] result in
          guard !job.delivery.isGone else { return }
          switch result {
          case .failure(let failure): job.later(ReadingFailure(failure).redis)
          case .success(let records): job.delivery.publish(pages(body, members, records, job), then: then)
          }
        }
      }
    }
  }

  private func pages(
    _ body: [UInt8], _ members: [ActivityRegistry.Owed], _ records: [DeviceRecord?], _ job: Cancelled
  ) -> [Publish] {
    var newest = PushJob()
    // Another version of Herald may have written it.
    guard (try? read(body, MessageMetadata(), into: &newest)) != nil else { return [] }
    var pages: [Publish] = []
    for (member, record) in zip(members, records) {
      // Another device may have the ordinal by now.
      guard let record, member.device == 0 || member.device == record.fingerprint else { continue }
      let page = LatePage(
        newest, to: record.id, ordinal: member.ordinal, fingerprint: record.fingerprint, token: member.token,
        after: job.revision)
      pages.append(
        Publish(
          target: .latePage(id: page.id, apnsID: page.apnsID), body: page.body, metadata: job.progress.metadata))
    }
    return pages
  }

  // MARK: - The channel

  /// The broadcast of what was before may have been overtaken by the cancelled one: it is broadcast once more. Who shows it ignores that.
  private func broadcastRestored(_ job: Cancelled) {
    activities.newest(job.activity, in: job.step.scope) { [self] result in
      guard !job.delivery.isGone else { return }
      switch result {
      case .failure(let failure): job.later(ReadingFailure(failure).redis)
      case .success(let newest):
        guard let newest, let channel = newest.activity.channel, newest.activity.newerThanStart != nil else {
          return job.then(nil, [])
        }
        store.repeatBroadcast(job.step.job) { [self] result in
          guard !job.delivery.isGone else { return }
          switch result {
          case .failure(let failure): job.later(failure)
          case .success(let isFirst):
            job.then(
              nil, broadcast(newest.body, on: channel, after: job.step, job.progress, isRepeated: !isFirst))
          }
        }
      }
    }
  }
}
