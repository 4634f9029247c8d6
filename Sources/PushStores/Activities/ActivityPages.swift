package import PushCore

/// Finds the devices of an activity's page that get a push, and marks the members.
///
/// Not Sendable: it belongs to its registries' loop's thread.
package final class ActivityPages {
  private let devices: DeviceRegistry
  private let activities: ActivityRegistry

  package init(devices: DeviceRegistry, activities: ActivityRegistry) {
    self.devices = devices
    self.activities = activities
  }

  /// The parts of a page's job that matter here.
  private struct Page {
    let id: ActivityID
    let scope: AppScope
    let ordinals: [UInt32]
    /// The device of a late token's page; empty: it is none.
    let lateDevice: String
    /// The start's job; nil: not a start.
    let startJob: UInt64?
    /// The job that ends the activity for the page's devices alone; nil: another one.
    let leaveJob: UInt64?
    /// Its devices get the start's fallback alert.
    let isFallback: Bool
    let attributesType: String
    /// Of a start: the channel that it names for updates.
    let inputPushChannel: String?
    let push: ActivityState.Push
    /// Of a late token's page: its id, and the `apns-id` that names the token.
    var late: (id: [UInt8], apnsID: UUIDValue)?

    func isFor(_ token: [UInt8]) -> Bool {
      guard let late else { return true }
      let text = Array(Hex.text(token).utf8)
      return late.apnsID.high
        == UUIDValue.apnsID(page: late.id.span, lateToken: text.span, revision: push.revision).high
    }
  }

  /// Takes who gets a page, or why nobody can say.
  package typealias Then = (Result<PageResolution, DeviceRegistryFailure>) -> Void

  /// The second half of the search for an activity's page's devices, once their records are known.
  package typealias Finish = ([PageDevice], @escaping Then) -> Void

  /// - Parameters:
  ///   - isOver: the page is not sent any more.
  ///   - apnsID: of the page's message.
  package func finish(_ job: borrowing PushJob, isOver: Bool, apnsID: UUIDValue? = nil, in scope: AppScope) -> Finish {
    var page = ActivityPages.page(job, isOver: isOver, scope)
    if !job.page.late.isEmpty, let apnsID {
      let id = Array(job.bytes[job.id.range])
      // Older workers made it from the ordinal: it names no token.
      let old = UUIDValue.apnsID(for: job, target: 0)
      if apnsID != old { page.late = (id, apnsID) }
    }
    return { [self] devices, then in
      guard let startJob = page.startJob else { return update(page, devices, then) }
      start(page, job: startJob, devices, then)
    }
  }

  /// Whether an activity's broadcast is overtaken.
  package func find(broadcast job: borrowing PushJob, in scope: AppScope, then: @escaping Then) {
    let revision = job.revision
    let timestamp = ActivityPages.timestamp(of: job)
    activities.state(ActivityPages.activity(of: job), in: scope) { result in
      then(
        result.mapError { DeviceRegistryFailure($0) }.map { activity in
          var resolution = PageResolution()
          resolution.isOvertaken = activity?.isOvertaken(revision, timestamp: timestamp) ?? false
          return resolution
        })
    }
  }

  private static func activity(of job: borrowing PushJob) -> ActivityID {
    guard let id = ActivityID(String(decoding: job.bytes[job.activity.range], as: UTF8.self)) else {
      preconditionFailure("the parser checked the activity's id")
    }
    return id
  }

  /// Of its payload.
  private static func timestamp(of job: borrowing PushJob) -> Int64? {
    (try? ActivityPayload(Array(job.bytes[job.payload.range])))?.timestamp
  }

  private static func lateDevice(of job: borrowing PushJob) -> String {
    String(decoding: JSONEscape.unescaped(job.page.late, of: job.bytes.span), as: UTF8.self)
  }

  private static func page(_ job: borrowing PushJob, isOver: Bool, _ scope: AppScope) -> Page {
    let bytes = job.bytes
    var ordinals: [UInt32] = []
    // After the page is resolved, only devices that get a push: fewer than its count.
    ordinals.reserveCapacity(job.page.ordinals.count)
    for index in job.page.ordinals.indices { ordinals.append(job.page.ordinal(index, in: bytes.span)) }
    let isFallback = job.pushType == .alert
    let isStart = job.event == .start || isFallback
    let payload = isFallback ? nil : try? ActivityPayload(Array(bytes[job.payload.range]))
    return Page(
      id: activity(of: job), scope: scope, ordinals: ordinals, lateDevice: lateDevice(of: job),
      startJob: isStart ? ActivityJobs.word(of: bytes.span.extracting(job.parentID.range)) : nil,
      leaveJob: job.isLeave && job.page.late.isEmpty
        ? ActivityJobs.word(of: bytes.span.extracting(job.parentID.range)) : nil,
      isFallback: isFallback,
      attributesType: payload?.attributesType ?? "", inputPushChannel: payload?.inputPushChannel,
      push: ActivityState.Push(
        revision: job.revision, timestamp: payload?.timestamp, isLate: !job.page.late.isEmpty,
        isLeave: job.isLeave, isOver: isOver))
  }

  /// Devices of a page.
  private struct Members {
    var ordinals: [UInt32] = []
    /// Their fingerprints.
    var devices: [UInt32] = []

    mutating func append(_ ordinal: UInt32, _ record: DeviceRecord) {
      ordinals.append(ordinal)
      devices.append(record.fingerprint)
    }
  }

  private func update(_ page: Page, _ devices: [PageDevice], _ then: @escaping Then) {
    // A device that is forgotten since is skipped. Its ordinal may be another's by now, to whom nothing counts as sent.
    let isHere = { (record: DeviceRecord) in page.lateDevice.isEmpty || page.lateDevice.hasBytes(of: record.id) }
    var found = Members()
    var asked = Members()
    for (ordinal, device) in zip(page.ordinals, devices) {
      switch device {
      case .found(let record?) where isHere(record): found.append(ordinal, record)
      case .asked(let record, _): asked.append(ordinal, record)
      case .found, .forgotten, .settled: break
      }
    }
    activities.resolve(
      page.push, of: page.id, in: page.scope, to: found.ordinals, devices: found.devices, job: page.leaveJob,
      isFor: page.isFor
    ) { [activities] result in
      let resolved: [ActivityState.Resolved]
      switch result {
      case .failure(let failure): return then(.failure(DeviceRegistryFailure(failure)))
      case .success(let found): resolved = found
      }
      let finish = { (members: [ActivityMember?]) in
        var (answers, members) = (resolved[...], members[...])
        var resolution = PageResolution()
        for device in devices {
          switch device {
          case .found(let record?) where isHere(record):
            guard let answer = answers.popFirst() else { preconditionFailure("each device has its answer") }
            resolution.append(answer, record)
          case .found: resolution.skip()
          case .forgotten: resolution.forget()
          case .asked(let record, let isUnsent):
            guard let member = members.popFirst() ?? nil, !member.token.isEmpty else {
              // It had a token: this copy may have been sent there.
              resolution.skip(device: record.id.utf8.span)
              continue
            }
            // Another copy found no token, or another revision's page overtook it, before this copy took the device. Nobody else sends to it.
            if isUnsent, member.isTaken(by: page.push) {
              resolution.send(
                to: member.token.span, device: record.id.utf8.span, registeredAt: member.changedAt)
            } else {
              resolution.supersede(member.token.span, device: record.id.utf8.span, registeredAt: 0)
            }
          case .settled: resolution.settled()
          }
        }
        then(.success(resolution))
      }
      guard !asked.ordinals.isEmpty else { return finish([]) }
      activities.members(of: page.id, in: page.scope, asked.ordinals, devices: asked.devices) { result in
        switch result {
        case .failure(let failure): then(.failure(DeviceRegistryFailure(failure)))
        case .success(let members): finish(members)
        }
      }
    }
  }

  /// Only devices with a token are marked: a start token, or an alert token for the fallback. A device that got
  /// its start token after the page was made still gets the alert.
  private func start(
    _ page: Page, job: UInt64, _ devices: [PageDevice], _ then: @escaping Then
  ) {
    let token = { (record: DeviceRecord) in page.isFallback ? record.token : record.startToken(for: page.attributesType)
    }
    var able = Members()
    for (ordinal, device) in zip(page.ordinals, devices) {
      if case .found(let record?) = device, token(record) != nil { able.append(ordinal, record) }
    }
    activities.resolveStart(
      of: page.id, in: page.scope, job: job, areAlerts: page.isFallback, inputPushChannel: page.inputPushChannel,
      isOver: page.push.isOver, to: able.ordinals, devices: able.devices,
      lost: page.push.isOver ? nil : (page.attributesType, page.push.timestamp)
    ) { result in
      var answers: ArraySlice<ActivityState.Started>
      switch result {
      case .failure(let failure): return then(.failure(DeviceRegistryFailure(failure)))
      case .success(let resolved): answers = resolved[...]
      }
      var resolution = PageResolution()
      for device in devices {
        switch device {
        case .found(let record):
          guard let record, let token = token(record), let answer = answers.popFirst() else {
            resolution.skip()
            continue
          }
          switch answer {
          case .send: resolution.send(to: token.bytes.span, device: record.id.utf8.span, registeredAt: token.at)
          case .superseded:
            resolution.supersede(token.bytes.span, device: record.id.utf8.span, registeredAt: token.at)
          // It was free for others: an earlier copy, whose time was over too, may have given it an outcome.
          case .skipped where page.push.isOver: resolution.skip(device: record.id.utf8.span)
          case .skipped: resolution.skip()
          }
        case .asked(let record, _): resolution.ask(token(record), record)
        case .forgotten: resolution.forget()
        case .settled: resolution.settled()
        }
      }
      then(.success(resolution))
    }
  }

  /// APNs reported a target's token as gone since then (Unix milliseconds). If Redis is unavailable, APNs reports it
  /// again with the next push.
  /// - Parameter then: called once that is stored, or could not be stored.
  package func tokenGone(
    _ token: [UInt8], _ job: borrowing PushJob, target: Int, since: Int64, in scope: AppScope,
    then: @escaping () -> Void
  ) {
    let page = ActivityPages.page(job, isOver: false, scope)
    let ordinal = job.page.ordinal(target, in: job.bytes.span)
    guard page.startJob == nil else {
      return devices.lose(token, ordinal: ordinal, at: since, in: scope) { _ in then() }
    }
    let device = job.page.fingerprint(target, in: job.bytes.span).map { [$0] } ?? []
    activities.unregistered(token, of: page.id, in: scope, ordinal: ordinal, devices: device, at: since) { _ in then() }
  }
}

extension PageResolution {
  fileprivate mutating func append(_ answer: ActivityState.Resolved, _ record: DeviceRecord) {
    switch answer {
    case .send(let token, let registeredAt):
      send(to: token.span, device: record.id.utf8.span, registeredAt: registeredAt)
    // No such token has a dead-token mark.
    case .superseded(_, let token): supersede(token.span, device: record.id.utf8.span, registeredAt: 0)
    // It never had a token, so that nothing was sent to it.
    case .skipped(.noToken): skip()
    case .skipped: skip(device: record.id.utf8.span)
    case .elsewhere: waitForAnother()
    }
  }

  /// Another copy of the page told how it ended.
  package mutating func ask(_ token: DeviceRecord.Token?, _ record: DeviceRecord) {
    guard let token else { return settled() }
    supersede(token.bytes.span, device: record.id.utf8.span, registeredAt: token.at)
  }
}
