import Logging
import PushCore
import PushIO
import PushLane

/// An activity for many devices takes a broadcast channel before it is started: then each update is one broadcast, beside the tokens of those
/// that have no channels.
extension ExpansionRunner {
  /// A start waits so long for its channel, and then goes on with tokens alone.
  private static let channelMilliseconds: Int64 = 10_000
  /// For so long it looks again and again, since most channels are there soon; then it waits in a queue.
  private static let heldMilliseconds: Int64 = 2_000
  private static let lookMilliseconds: Int64 = 100
  /// A wait that began so long ago was another's, who got its channel.
  private static let staleMilliseconds: Int64 = 60_000
  /// More are forgotten, and wait anew.
  private static let waitsMaximum = 1_000
  /// Devices that are counted at once.
  private static let countedDevices = 100_000

  /// Whether the start's updates shall come on a channel, and on which. Until the activity has one, each start decides. Before the first one
  /// has decided the activity is made known, so that updates may come.
  /// - Parameter decided: called with the decision.
  func chooseWay(
    _ delivery: ExpansionDelivery, _ step: Step, startOf id: ActivityID,
    decided: @escaping (ActivityState.UpdateWay) -> Void
  ) {
    guard let maximum = settings.activities.channelAbove, let audience = step.audience, hasNoUpdateWay(delivery) else {
      return decided(.tokens)
    }
    activities.state(id, in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(delivery, step, ReadingFailure(failure))
      case .success(let activity):
        let known = activity?.startRevision == nil ? nil : activity?.updateWay
        switch known ?? .undecided {
        // It is decided; another decision counts no more.
        case .channel: decided(.tokens)
        case .awaited: findChannel(delivery, step, startOf: id, decided: decided)
        case .tokens, .undecided:
          take(delivery, step, way: .undecided) { [self] in
            countMembers(delivery, step, of: id) { [self] members, counted in
              count(delivery, step, audience, above: maximum, besides: members, counted: counted) { [self] isAbove in
                guard isAbove else { return decided(.tokens) }
                take(delivery, step, way: .awaited) { [self] in
                  findChannel(delivery, step, startOf: id, decided: decided)
                }
              }
            }
          }
        }
      }
    }
  }

  private func hasNoUpdateWay(_ delivery: ExpansionDelivery) -> Bool {
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    return (try? ActivityPayload(Array(job.bytes[job.payload.range])))?.hasUpdateWay == false
  }

  /// The devices that earlier starts named, and how many of them can have a channel. Where they are very many, some of them.
  private func countMembers(
    _ delivery: ExpansionDelivery, _ step: Step, of id: ActivityID, then: @escaping (Set<UInt32>, Int) -> Void
  ) {
    activities.members(id, in: step.scope, limit: ExpansionRunner.countedDevices) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(delivery, step, ReadingFailure(failure))
      case .success([]): then([], 0)
      case .success(let members):
        reader.split(members.sorted(), by: .withChannels, in: step.scope) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): later(delivery, step, ReadingFailure(failure))
          case .success(let (able, _)): then(Set(members), able.count)
          }
        }
      }
    }
  }

  /// Whether more devices of the activity than this can have a channel: reads no more of the audience than that takes.
  /// - Parameters:
  ///   - members: counted before.
  ///   - counted: the devices found so far.
  private func count(
    _ delivery: ExpansionDelivery, _ step: Step, _ audience: AudienceQuery, above maximum: Int,
    besides members: Set<UInt32>, from ordinal: UInt32 = 0, counted: Int, then: @escaping (Bool) -> Void
  ) {
    reader.read(
      audience, in: step.scope, from: ordinal, maximum: ExpansionRunner.countedDevices,
      unixMilliseconds: delivery.firstSeen
    ) { [self] part in
      guard !delivery.isGone else { return }
      switch part {
      case .failed(let failure): later(delivery, step, failure)
      // The way stays open, for the same start once there is such an audience. Nothing is stored of this job: what is forgotten under its id
      // would be a twin's.
      case .refused(let text):
        refuseStep(delivery, step, text, isStored: false)
        end(step.job)
      case .found(let ordinals, let next, _, _):
        reader.split(ordinals, by: .withChannels, in: step.scope) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): later(delivery, step, ReadingFailure(failure))
          case .success(let (able, _)):
            let counted = counted + able.count { !members.contains($0) }
            guard counted <= maximum, let next else { return then(counted > maximum) }
            count(
              delivery, step, audience, above: maximum, besides: members, from: next, counted: counted, then: then)
          }
        }
      }
    }
  }

  private func findChannel(
    _ delivery: ExpansionDelivery, _ step: Step, startOf id: ActivityID,
    decided: @escaping (ActivityState.UpdateWay) -> Void
  ) {
    let name = ChannelName(ofActivity: id)
    let keys = ChannelKeys(prefix: settings.prefix, scope: step.scope)
    channels.call(["EVAL", ChannelScript.begin, "2", keys.names, keys.used, name.text], key: keys.names) {
      [self] result in
      guard !delivery.isGone else { return }
      let wait = ActivityKey(scope: step.scope, activity: id)
      let now = loop.now.monotonic
      if case .success(let reply) = result, let channel = reply.text.flatMap(ChannelID.init(text:)) {
        channelWaits[wait] = nil
        return decided(.channel(channel))
      }
      let waited = channelWaits[wait].map { now.milliseconds(since: $0) }
      guard let waited, waited < ExpansionRunner.staleMilliseconds else {
        if channelWaits.count >= ExpansionRunner.waitsMaximum { channelWaits = [:] }
        channelWaits[wait] = now
        return ask(for: name, delivery, step) { [self] in findChannel(delivery, step, startOf: id, decided: decided) }
      }
      if waited < ExpansionRunner.heldMilliseconds {
        schedule(afterMilliseconds: ExpansionRunner.lookMilliseconds) { [self] in
          findChannel(delivery, step, startOf: id, decided: decided)
        }
      } else if waited < ExpansionRunner.channelMilliseconds {
        self.wait(delivery, seconds: Topology.expansionDelaysSeconds[0])
        end(step.job)
      } else {
        channelWaits[wait] = nil
        notice(.warning, "activities of \(step.scope): no channel for \(id.text) in time: its updates go to tokens")
        decided(.tokens)
      }
    }
  }

  /// Requests the channel. The request is the same however often it is published.
  private func ask(
    for name: ChannelName, _ delivery: ExpansionDelivery, _ step: Step, then: @escaping () -> Void
  ) {
    let id = "activity-start:" + Hex.text(ActivityJobs.word(of: step.id.utf8.span), count: 16)
    var body: [UInt8] = []
    ChannelJobWriter.appendEnsure(name, .mostRecent, id: id, in: step.scope, to: &body)
    delivery.publish(
      [Publish(target: .channelRequest(id: id), body: body, metadata: delivery.metadata)], then: then)
  }

  // MARK: - Updates

  enum Broadcast {
    /// Its activity has no channel, or it has ended.
    case none
    case message(Publish)
    /// It failed, and with it the job is complete.
    case lost
  }

  /// The job of an update or end is complete once its broadcast has ended too. Called before its first step is fixed.
  func expectBroadcast(
    _ delivery: ExpansionDelivery, _ step: Step, of id: ActivityID, then: @escaping () -> Void
  ) {
    guard step.cursor.step == 0, !step.isDryRun else { return then() }
    activities.state(id, in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): later(delivery, step, ReadingFailure(failure))
      case .success(let activity):
        guard activity?.channel != nil else { return then() }
        store.expectBroadcast(step.job) { [self] result in
          guard !delivery.isGone else { return }
          if case .failure(let failure) = result { return again(delivery, step, failure.text) }
          delivery.expectsBroadcast = true
          then()
        }
      }
    }
  }

  /// The broadcast of an update or end, which goes out with the first step's pages.
  func broadcast(
    _ delivery: ExpansionDelivery, _ step: Step, isRepeated: Bool, then: @escaping (Broadcast) -> Void
  ) {
    guard let id = step.membersOf, step.cursor.step == 0, !step.isDryRun else { return then(.none) }
    activities.state(id, in: step.scope) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): again(delivery, step, "\(failure)")
      case .success(let activity):
        guard let channel = activity?.channel else {
          guard isRepeated || delivery.expectsBroadcast else { return then(.none) }
          return settleWithoutChannel(delivery, step, then: then)
        }
        let broadcast = broadcast(delivery, on: channel, isRepeated: isRepeated)
        guard isRepeated else { return then(.message(broadcast)) }
        // A job that was cancelled before its first step comes here too, and one whose broadcast has ended.
        store.progress(step.job) { [self] result in
          guard !delivery.isGone else { return }
          switch result {
          case .failure(let failure): again(delivery, step, failure.text)
          case .success(let progress):
            let isOpen = progress?.broadcast.map(\.letter.isEmpty) ?? (progress?.isCancelled != true)
            then(isOpen ? .message(broadcast) : .none)
          }
        }
      }
    }
  }

  /// Redis lost the channel after the broadcast was counted: nobody would ever report how it ended.
  private func settleWithoutChannel(
    _ delivery: ExpansionDelivery, _ step: Step, then: @escaping (Broadcast) -> Void
  ) {
    var settlement = PageSettlement(
      parentID: Array(step.id.utf8), scope: step.scope, page: AudiencePage.broadcastNumber, position: 0,
      ends: [PageEnd.outcome(.failed).letter])
    settlement.reason = Array("Redis lost the channel".utf8)
    store.settle(settlement) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure): again(delivery, step, failure.text)
      case .success(let completed): then(completed == nil ? .none : .lost)
      }
    }
  }

  private func broadcast(_ delivery: ExpansionDelivery, on channel: ChannelID, isRepeated: Bool) -> Publish {
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    var body: [UInt8] = []
    PageWriter.append(job, channel: channel, to: &body)
    let id = Array(job.bytes[job.id.range]) + Array("/channel".utf8)
    return Publish(
      target: .page(delivery.jobClass, id: id), body: body, metadata: delivery.metadata, isRepeated: isRepeated)
  }
}
