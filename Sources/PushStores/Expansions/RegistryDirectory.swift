package import PushCore
package import PushIO
import PushLane

/// The registry as a lane's directory of devices, with its own connection. It belongs to its loop's thread.
package final class RegistryDirectory: AudienceDirectory {
  private let redis: RedisClient
  private let registry: DeviceRegistry
  private let activities: ActivityPages
  private var answers: [(ticket: Ticket, resolution: PageResolution?)] = []
  private var next = 0
  /// Requests that the registry has not answered.
  private var openCount = 0
  /// Without open requests nothing is checked until then.
  private var idleUntil = Instant(nanoseconds: 0)

  /// A page whose devices are not found within this time waits in a retry queue: it occupies a place among the lane's
  /// jobs.
  private static let timeoutMilliseconds: Int64 = 2_000
  /// Interval between checks of a connection without open requests: a turn of a lane without pages costs nothing here.
  private static let idleMilliseconds: Int64 = 100

  /// - Parameters:
  ///   - prefix: of every key.
  ///   - seed: of the pauses between connects.
  package init(loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, prefix: String, seed: UInt64) {
    redis = RedisClient(
      loop: loop, configuration: configuration, tls: tls, timeoutMilliseconds: RegistryDirectory.timeoutMilliseconds,
      seed: seed)
    registry = DeviceRegistry(loop: loop, redis: redis, prefix: prefix)
    activities = ActivityPages(
      devices: registry, activities: ActivityRegistry(loop: loop, redis: redis, prefix: prefix))
  }

  deinit { redis.abandon() }

  package var knowsDevices: Bool { true }

  package func maintain(now: Now) {
    guard openCount > 0 || now.monotonic >= idleUntil else { return }
    idleUntil = now.monotonic.adding(milliseconds: RegistryDirectory.idleMilliseconds)
    redis.turn()
    registry.turn()
  }

  package func find(_ job: borrowing PushJob, isOver: Bool, ticket: Ticket, now: Now) {
    guard let scope = RegistryDirectory.scope(of: job) else { preconditionFailure("a parsed job has an app") }
    openCount += 1
    if !job.activity.isEmpty {
      return activities.find(job, isOver: isOver, in: scope) { [weak self] resolution in
        self?.openCount -= 1
        self?.answers.append((ticket, resolution))
      }
    }
    let bytes = job.bytes
    var ordinals: [UInt32] = []
    ordinals.reserveCapacity(job.page.count)
    for index in 0..<job.page.count { ordinals.append(job.page.ordinal(index, in: bytes.span)) }
    registry.records(of: ordinals, epoch: job.page.epoch, in: scope) { [weak self] result in
      self?.openCount -= 1
      self?.answers.append((ticket, (try? result.get()).map(RegistryDirectory.resolution)))
    }
  }

  private static func resolution(_ records: [DeviceRecord?]) -> PageResolution {
    var resolution = PageResolution()
    for record in records {
      if let record, let token = record.token {
        resolution.send(to: token.bytes.span, device: record.id.utf8.span, registeredAt: token.at)
      } else {
        resolution.skip()
      }
    }
    return resolution
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
