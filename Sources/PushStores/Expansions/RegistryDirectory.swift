package import PushCore
package import PushIO
package import PushLane

/// The registry as a lane's directory of devices, with its own connection. It belongs to its loop's thread.
package final class RegistryDirectory: AudienceDirectory {
  private let redis: RedisClient
  private let registry: DeviceRegistry
  private let activities: ActivityPages
  private let expansions: ExpansionStore
  private var answers: [DirectoryAnswer] = []
  private var next = 0
  private var unreadable: String?
  private var standings: [(index: Int, job: AudienceID, standing: AudienceStanding?)] = []
  /// Requests that the registry has not answered.
  private var openCount = 0
  /// Without open requests nothing is checked until then.
  private var idleUntil = Instant(nanoseconds: 0)

  /// A page of which one of the few calls takes longer than this waits in a retry queue: it occupies a place among the lane's
  /// jobs.
  private static let timeoutMilliseconds: Int64 = 2_000
  /// Interval between checks of a connection without open requests: a turn of a lane without pages costs nothing here.
  private static let idleMilliseconds: Int64 = 100

  /// - Parameters:
  ///   - prefix: of every key.
  ///   - seed: of all its random numbers.
  package init(loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, prefix: String, seed: UInt64) {
    redis = RedisClient(
      loop: loop, configuration: configuration, tls: tls, timeoutMilliseconds: RegistryDirectory.timeoutMilliseconds,
      seed: seed)
    registry = DeviceRegistry(loop: loop, redis: redis, prefix: prefix, seed: seed)
    activities = ActivityPages(
      devices: registry, activities: ActivityRegistry(loop: loop, redis: redis, prefix: prefix))
    expansions = ExpansionStore(redis, prefix: prefix) { loop.now.unixMilliseconds }
  }

  deinit { redis.abandon() }

  package var knowsDevices: Bool { true }

  package func maintain(now: Now) {
    guard openCount > 0 || now.monotonic >= idleUntil else { return }
    idleUntil = now.monotonic.adding(milliseconds: RegistryDirectory.idleMilliseconds)
    redis.turn()
    registry.turn()
  }

  package func find(
    _ job: borrowing PushJob, isOver: Bool, mayPause: Bool, settled: SettledDevices, apnsID: UUIDValue?, ticket: Ticket,
    now: Now
  ) {
    guard let parent = AudienceID(parentOf: job) else { preconditionFailure("a parsed job has an app") }
    let scope = parent.scope
    openCount += 1
    let then: ActivityPages.Then = { [weak self] found in
      guard let self else { return }
      openCount -= 1
      let found = found.mapError(RegistryDirectory.failure)
      if case .failure(.unreadable(let text)) = found { unreadable = text }
      answers.append((ticket, found))
    }
    let bytes = job.bytes
    if job.page.isEmpty { return find(broadcast: job, of: parent, mayPause: mayPause, then) }
    var page = Page(parent: parent, mayPause: mayPause, settled: settled)
    for index in 0..<job.page.count {
      page.ordinals.append(job.page.ordinal(index, in: bytes.span))
      page.fingerprints.append(job.page.fingerprint(index, in: bytes.span))
    }
    page.finish = finish(job, isOver: isOver, apnsID, scope)
    if case .asked = settled { page.finishOver = finish(job, isOver: true, apnsID, scope) }
    // No progress is kept of a late token's page.
    if job.page.late.isEmpty {
      var settlement = PageSettlement(
        parentID: Array(parent.id.utf8), scope: scope, page: job.page.number, position: job.page.position, ends: [],
        fingerprints: Array(bytes[job.page.writtenFingerprints.range]))
      PageSettlement.appendOrdinals(of: job, to: &settlement.ordinals)
      page.settlement = settlement
    }
    find(page, epoch: job.page.epoch, then)
  }

  /// A page that is being looked up.
  private struct Page {
    let parent: AudienceID
    let mayPause: Bool
    let settled: SettledDevices
    var ordinals: [UInt32] = []
    var fingerprints: [UInt32?] = []
    /// Without ends; nil: no progress is kept of it.
    var settlement: PageSettlement?
    var finish: ActivityPages.Finish?
    /// The same of a page that is not sent any more.
    var finishOver: ActivityPages.Finish?
  }

  private func finish(
    _ job: borrowing PushJob, isOver: Bool, _ apnsID: UUIDValue?, _ scope: AppScope
  ) -> ActivityPages.Finish {
    job.activity.isEmpty
      ? RegistryDirectory.finish : activities.finish(job, isOver: isOver, apnsID: apnsID, in: scope)
  }

  /// Asks for the devices and for the state of the page, or of its job alone, at once: in a cluster, different nodes have them.
  private func find(_ page: Page, epoch: UInt64, _ then: @escaping ActivityPages.Then) {
    var left = 2
    var records: [DeviceRecord?] = []
    var state: ExpansionStore.PageState?
    var failure: DeviceRegistryFailure?
    let complete = { [weak self] in
      left -= 1
      guard left == 0, let self else { return }
      if let failure { return then(.failure(failure)) }
      guard let state else { preconditionFailure("both have answered") }
      found(page, records, state, then)
    }
    registry.records(of: page.ordinals, epoch: epoch, in: page.parent.scope) { result in
      switch result {
      case .success(let found): records = found
      case .failure(let known): failure = known
      }
      complete()
    }
    let known = { (result: Result<ExpansionStore.PageState, RedisClient.Failure>) in
      switch result {
      case .success(let found): state = found
      case .failure(let known): failure = DeviceRegistryFailure(known)
      }
      complete()
    }
    if let settlement = page.settlement {
      expansions.state(of: settlement, page.ordinals.count, in: page.parent, then: known)
    } else {
      expansions.standing(of: page.parent) {
        known($0.map { ExpansionStore.PageState(standing: $0, ends: nil) })
      }
    }
  }

  private func found(
    _ page: Page, _ records: [DeviceRecord?], _ state: ExpansionStore.PageState,
    _ then: @escaping ActivityPages.Then
  ) {
    let devices = RegistryDirectory.devices(page, records, state)
    let finished: ActivityPages.Then = { [weak self] found in
      guard case .success(var resolution) = found else { return then(found) }
      // A paused job's page that may not wait ends.
      resolution.standing = state.standing == .paused ? .running : state.standing
      if let settlement = page.settlement {
        resolution.isForeign = state.ends == nil
        if state.ends != nil { self?.settleUnsent(settlement, resolution) }
      }
      then(.success(resolution))
    }
    switch (state.standing, page.finishOver) {
    case (.paused, _) where page.mayPause:
      var resolution = PageResolution()
      resolution.standing = .paused
      then(.success(resolution))
    case (.cancelled, nil): finished(.success(RegistryDirectory.cancelled(devices)))
    // It may have been sent: the outcomes say so.
    case (.cancelled, let finish?): finish(devices, finished)
    case (.running, _), (.paused, _): page.finish?(devices, finished)
    }
  }

  private static func cancelled(_ devices: [PageDevice]) -> PageResolution {
    var resolution = PageResolution()
    for device in devices {
      switch device {
      case .found(.some), .asked: resolution.cancel()
      case .found(nil): resolution.skip()
      case .forgotten: resolution.forget()
      case .settled: resolution.settled()
      }
    }
    return resolution
  }

  /// Copies of a page may be in several queues. What one of them told is the end, whatever another one finds.
  private static func devices(
    _ page: Page, _ records: [DeviceRecord?], _ state: ExpansionStore.PageState
  ) -> [PageDevice] {
    records.indices.map { index in
      let record = records[index]
      // Pages of the build before have no fingerprints: there is nothing to compare.
      let isOther = record.map { page.fingerprints[index] ?? $0.fingerprint != $0.fingerprint } ?? false
      let unsettled: PageDevice = isOther ? .forgotten : .found(record)
      guard let ends = state.ends else { return unsettled }
      switch page.settled {
      case .found: return unsettled
      case .leftOut, .asked:
        if ends[index] == PageEnd.open { return unsettled }
        guard let record, !isOther, case .asked = page.settled else { return .settled }
        return .asked(record, isUnsent: PageEnd.unsent.contains(ends[index]))
      }
    }
  }

  /// Stores at once which devices end without an outcome: nothing else tells other copies of the page. The lane's own report, which tells
  /// this too, may come much later.
  private func settleUnsent(_ page: PageSettlement, _ resolution: PageResolution) {
    var page = page
    page.ends = resolution.entries.map { $0.unsent.map { PageEnd($0).letter } ?? PageEnd.open }
    guard page.ends.contains(where: { $0 != PageEnd.open }) else { return }
    openCount += 1
    expansions.settle(page) { [weak self] _ in self?.openCount -= 1 }
  }

  /// Whether a newer broadcast of its activity overtook it, or its job was cancelled.
  private func find(
    broadcast job: borrowing PushJob, of parent: AudienceID, mayPause: Bool,
    _ then: @escaping ActivityPages.Then
  ) {
    var left = 2
    var resolution: Result<PageResolution, DeviceRegistryFailure> = .success(PageResolution())
    var standing: Result<AudienceStanding, DeviceRegistryFailure> = .success(.running)
    let complete = {
      left -= 1
      guard left == 0 else { return }
      then(
        resolution.flatMap { found in
          standing.map { standing in
            var found = found
            found.standing = standing == .paused && !mayPause ? .running : standing
            found.isOvertaken = found.isOvertaken || standing == .cancelled
            return found
          }
        })
    }
    activities.find(broadcast: job, in: parent.scope) {
      resolution = $0
      complete()
    }
    expansions.standing(of: parent) {
      standing = $0.mapError { DeviceRegistryFailure($0) }
      complete()
    }
  }

  private static func finish(_ devices: [PageDevice], _ then: ActivityPages.Then) {
    var resolution = PageResolution()
    for device in devices {
      switch device {
      case .found(let record?):
        if let token = record.token {
          resolution.send(to: token.bytes.span, device: record.id.utf8.span, registeredAt: token.at)
        } else {
          resolution.skip()
        }
      case .found(nil): resolution.skip()
      case .asked(let record, _): resolution.ask(record.token, record)
      case .forgotten: resolution.forget()
      case .settled: resolution.settled()
      }
    }
    then(.success(resolution))
  }

  private static func failure(_ failure: DeviceRegistryFailure) -> DirectoryFailure {
    switch failure {
    case .redis, .busy: .silent
    case .unreadable(let text): .unreadable(text)
    }
  }

  package func nextAnswer(now: Now) -> DirectoryAnswer? {
    guard next < answers.count else {
      if answers.isEmpty { return nil }
      answers.removeAll(keepingCapacity: true)
      next = 0
      return nil
    }
    next += 1
    return answers[next - 1]
  }

  package func ask(about job: AudienceID, index: Int) {
    openCount += 1
    expansions.standing(of: job) { [weak self] result in
      self?.openCount -= 1
      self?.standings.append((index, job, try? result.get()))
    }
  }

  package func nextStanding() -> (index: Int, job: AudienceID, standing: AudienceStanding?)? { standings.popLast() }

  package func tokenGone(_ job: borrowing PushJob, target: Int, since: Int64) {
    let bytes = job.bytes
    guard let scope = AudienceID(parentOf: job)?.scope else { return }
    guard let token = Hex.bytes(bytes.span.extracting(job.targets[target].range)) else { return }
    if !job.activity.isEmpty {
      openCount += 1
      return activities.tokenGone(token, job, target: target, since: since, in: scope) { [weak self] in
        self?.openCount -= 1
      }
    }
    // If Redis is unavailable, the admission store's mark reports it again with the next page.
    openCount += 1
    registry.lose(token, ordinal: job.page.ordinal(target, in: bytes.span), at: since, in: scope) { [weak self] _ in
      self?.openCount -= 1
    }
  }

  package func takeUnreadable() -> String? { unreadable.take() }

  package func close() { redis.close() }
}
