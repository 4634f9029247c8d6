import PushCore
import PushIO
import PushLane

/// What the end of an activity's job, or of a part of it, needs beside its counts.
extension ExpansionRunner {
  /// Maximum devices that a detail names.
  private static let namedMaximum = 20

  /// Tells an activity's members how the pushes of their starts ended: behind the page, so that no other copy of it is sent to a device that
  /// is free again, and before the job's outcome, upon which its producer may start it again.
  func endStarts(_ settlement: PageSettlement, _ delivery: ExpansionDelivery, then: @escaping () -> Void) {
    guard let starts = settlement.starts, let devices = settlement.devices, let scope = settlement.scope,
      let id = ActivityID(String(decoding: starts.activity, as: UTF8.self))
    else { return then() }
    let ended = starts.letters.indices.filter { starts.letters[$0] != PageEnd.open }
    guard !ended.isEmpty else { return then() }
    let fingerprints = DeviceFingerprints.all(settlement.fingerprints, count: devices.count)
    activities.startsEnded(
      of: id, in: scope, job: ActivityJobs.word(of: settlement.parentID.span), areAlerts: starts.areAlerts,
      ordinals: ended.map { devices[$0] }, devices: fingerprints.map { all in ended.map { all[$0] } } ?? [],
      haveReached: ended.map { starts.letters[$0] == PageSettlement.Starts.reached }
    ) { [self] result in
      guard !delivery.isGone else { return }
      if case .failure(let failure) = result { return waitForRedis(delivery, "\(failure)") }
      then()
    }
  }

  /// - Parameter then: called with a detail for the job's outcome, and with the broadcasts to publish before it.
  func endActivityJob(
    _ progress: ExpansionProgress, _ body: [UInt8], _ delivery: ExpansionDelivery,
    orElse later: @escaping (RedisClient.Failure) -> Void, then: @escaping (String?, [Publish]) -> Void
  ) {
    var job = PushJob()
    guard let step = try? read(body, progress.metadata, into: &job), let id = step.activity, !progress.isDryRun else {
      return then(nil, [])
    }
    if progress.isCancelled, step.membersOf != nil {
      endCancelled(progress, step, id, revision: job.revision, delivery, orElse: later, then: then)
    } else if progress.isCancelled, step.isLeave {
      endCancelledLeave(progress, step, id, revision: job.revision, delivery, orElse: later, then: then)
    } else if step.startOf != nil {
      broadcastAgain(progress, step, id, delivery, orElse: later) { then(nil, $0) }
    } else if step.isLeave {
      nameOutOfReach(step, id, progress, delivery, orElse: later) { then($0, []) }
    } else {
      then(nil, [])
    }
  }

  /// Devices that were started with a channel after a broadcast have missed it: the newest state is broadcast once more, after the last of
  /// them. The others ignore it, since it is not newer than what they show.
  private func broadcastAgain(
    _ progress: ExpansionProgress, _ step: Step, _ id: ActivityID, _ delivery: ExpansionDelivery,
    orElse later: @escaping (RedisClient.Failure) -> Void, then: @escaping ([Publish]) -> Void
  ) {
    activities.newest(id, in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(ReadingFailure(failure).redis)
      case .success(let newest):
        guard let newest, let channel = newest.activity.channel, newest.activity.newerThanStart != nil else {
          return then([])
        }
        store.repeatBroadcast(step.job) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): later(failure)
          case .success(let isFirst):
            then(broadcast(newest.body, on: channel, after: step, progress, isRepeated: !isFirst))
          }
        }
      }
    }
  }

  /// - Parameter step: of the job because of which it is broadcast again.
  func broadcast(
    _ body: [UInt8], on channel: ChannelID, after step: Step, _ progress: ExpansionProgress, isRepeated: Bool
  ) -> [Publish] {
    var job = PushJob()
    // Another version of Herald may have written it.
    guard (try? read(body, MessageMetadata(), into: &job)) != nil else { return [] }
    let start = ActivityJobs.word(of: step.id.utf8.span)
    var broadcast: [UInt8] = []
    PageWriter.append(job, channel: channel, afterStart: start, to: &broadcast)
    let id = Array(job.bytes[job.id.range]) + PageWriter.broadcastName(afterStart: start)
    return [
      Publish(
        target: .page(progress.jobClass, id: id), body: broadcast, metadata: progress.metadata, isRepeated: isRepeated)
    ]
  }

  /// Which of the devices that the activity was to end for go on showing it: a broadcast cannot end it for one device.
  func nameOutOfReach(
    _ step: Step, _ id: ActivityID, _ progress: ExpansionProgress, _ delivery: ExpansionDelivery,
    orElse later: @escaping (RedisClient.Failure) -> Void, then: @escaping (String?) -> Void
  ) {
    guard let audience = step.audience else { return then(nil) }
    reader.read(
      audience, in: step.scope, from: 0, maximum: Limits.targetsMaximum, unixMilliseconds: progress.begun
    ) { [self] part in
      guard !delivery.isGone else { return }
      switch part {
      case .failed(let failure): later(failure.redis)
      case .refused(let text): later(ReadingFailure(unreadable: text).redis)
      case .found(let ordinals, _, _, let epoch):
        activities.outOfReach(ordinals, of: id, in: step.scope) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): later(ReadingFailure(failure).redis)
          case .success([]): then(nil)
          case .success(let left):
            let named = Array(left.prefix(ExpansionRunner.namedMaximum))
            devices.records(of: named, epoch: epoch, in: step.scope) { result in
              guard !delivery.isGone else { return }
              switch result {
              case .failure(let failure): later(ReadingFailure(failure).redis)
              case .success(let records):
                then(ExpansionRunner.outOfReach(records.compactMap { $0?.id }, count: left.count))
              }
            }
          }
        }
      }
    }
  }

  private static func outOfReach(_ names: [String], count: Int) -> String {
    let others = count > names.count ? " and \(count - names.count) more" : ""
    return """
      not ended for \(names.joined(separator: ", "))\(others): updates come on the activity's channel, and no update token \
      is registered; they end with the activity, or once they register one
      """
  }
}
