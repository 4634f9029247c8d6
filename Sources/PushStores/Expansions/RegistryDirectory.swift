package import PushCore
package import PushIO
package import PushLane

/// The registry as a lane's directory of devices, with its own connection. It belongs to its loop's thread.
package final class RegistryDirectory: AudienceDirectory {
  private let redis: RedisClient
  private let registry: DeviceRegistry
  private let activities: ActivityPages
  private let expansions: ExpansionStore
  private var answers: [(ticket: Ticket, resolution: PageResolution?)] = []
  private var next = 0
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
    _ job: borrowing PushJob, isOver: Bool, settled: SettledDevices, apnsID: UUIDValue?, ticket: Ticket, now: Now
  ) {
    guard let scope = RegistryDirectory.scope(of: job) else { preconditionFailure("a parsed job has an app") }
    openCount += 1
    let then: (PageResolution?) -> Void = { [weak self] resolution in
      self?.openCount -= 1
      self?.answers.append((ticket, resolution))
    }
    if job.page.isEmpty { return activities.find(broadcast: job, in: scope, then: then) }
    let finish =
      job.activity.isEmpty
      ? RegistryDirectory.finish : activities.finish(job, isOver: isOver, apnsID: apnsID, in: scope)
    let bytes = job.bytes
    var ordinals: [UInt32] = []
    ordinals.reserveCapacity(job.page.count)
    for index in 0..<job.page.count { ordinals.append(job.page.ordinal(index, in: bytes.span)) }
    // No progress is kept of a late token's page.
    var settlement: PageSettlement?
    if job.page.late.isEmpty {
      var page = PageSettlement(
        parentID: Array(bytes[job.parentID.range]), page: job.page.number, position: job.page.position, ends: [])
      PageSettlement.appendOrdinals(of: job, to: &page.ordinals)
      settlement = page
    }
    let epoch = job.page.epoch
    registry.records(of: ordinals, epoch: epoch, in: scope) { [weak self, settlement] result in
      guard let self, case .success(let records) = result else { return then(nil) }
      guard let settlement else { return finish(records.map { .found($0) }, then) }
      expansions.ends(of: settlement, ordinals.count) { [weak self] result in
        guard case .success(let ends) = result else { return then(nil) }
        finish(RegistryDirectory.devices(records, ends, settled)) { found in
          guard var resolution = found else { return then(nil) }
          resolution.isForeign = ends == nil
          if ends != nil { self?.settleSkipped(settlement, resolution) }
          then(resolution)
        }
      }
    }
  }

  /// Copies of a page may be in several queues. What one of them told is the end, whatever another one finds.
  /// - Parameter ends: nil: Redis has another page of this number.
  private static func devices(
    _ records: [DeviceRecord?], _ ends: [UInt8]?, _ settled: SettledDevices
  ) -> [PageDevice] {
    guard let ends else { return records.map { .found($0) } }
    return zip(records, ends).map { record, end in
      switch settled {
      case .found: return .found(record)
      case .leftOut, .asked:
        if end == PageEnd.open { return .found(record) }
        return if let record, case .asked = settled {
          .asked(record, isUnsent: PageEnd.unsent.contains(end))
        } else { .settled }
      }
    }
  }

  /// Stores at once which devices are skipped: nothing else tells other copies of the page. The lane's own report, which tells this too,
  /// may come much later.
  private func settleSkipped(_ page: PageSettlement, _ resolution: PageResolution) {
    var page = page
    page.ends = resolution.entries.map { $0 == .skipped(device: nil) ? PageEnd.skipped.letter : PageEnd.open }
    guard page.ends.contains(PageEnd.skipped.letter) else { return }
    openCount += 1
    expansions.settle(page) { [weak self] _ in self?.openCount -= 1 }
  }

  private static func finish(_ devices: [PageDevice], _ then: (PageResolution?) -> Void) {
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
      case .settled: resolution.settled()
      }
    }
    then(resolution)
  }

  package func nextAnswer(now: Now) -> (ticket: Ticket, resolution: PageResolution?)? {
    guard next < answers.count else {
      if answers.isEmpty { return nil }
      answers.removeAll(keepingCapacity: true)
      next = 0
      return nil
    }
    next += 1
    return answers[next - 1]
  }

  package func tokenGone(_ job: borrowing PushJob, target: Int, since: Int64) {
    let bytes = job.bytes
    guard let scope = RegistryDirectory.scope(of: job) else { return }
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

  package func close() { redis.close() }

  private static func scope(of job: borrowing PushJob) -> AppScope? {
    let bytes = job.bytes
    return AppScope(app: String(decoding: bytes[job.app.range], as: UTF8.self), environment: job.environment)
  }
}
