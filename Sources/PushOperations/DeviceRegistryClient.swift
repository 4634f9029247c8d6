package import Foundation
package import PushCore
import PushIO
import PushLane
package import PushSettings
package import PushStores

/// The registry of devices for commands: one thing after another, on a loop of its own.
package final class DeviceRegistryClient {
  package typealias Entry = DeviceRegistry.Entry

  /// Devices of an app in an environment.
  package struct Count: Sendable {
    package let scope: AppScope
    package let devices: Int
    package let withToken: Int
  }

  /// What became of the lines of an import.
  package struct Imported: Sendable {
    package var read = 0
    package var added = 0
    package var changed = 0
    /// All is as the line says, or something newer is known.
    package var unchanged = 0
    /// The device, or its user, was forgotten since.
    package var forgotten = 0
    package var wrong = 0
    /// All lines up to this one are done; the number of the first line is 1.
    package var cursor = 0

    package init() {}

    fileprivate mutating func count(_ answer: RegistrationAnswer) {
      switch answer {
      case .added: added += 1
      case .changed: changed += 1
      case .unchanged, .older: unchanged += 1
      case .forgotten: forgotten += 1
      case .refused: wrong += 1
      }
    }
  }

  private let loop: EventLoop
  private let redis: RedisClient
  private let registry: DeviceRegistry
  private let forgetter: DeviceForgetter

  private static let waitMilliseconds = 50
  /// Devices in one reply.
  private static let part = 500
  /// Lines of an import that are on their way at once.
  private static let importMaximum = 512
  /// Lines that are named one by one.
  package static let faultsMaximum = 20

  /// Throws what is wrong with the configuration.
  package init(_ configuration: Configuration) throws {
    let redisConfiguration = try RedisConfiguration(url: configuration.registryURL)
    loop = try EventLoop(wallClock: FleetTime.wallClock(configuration))
    redis = RedisClient(
      loop: loop, configuration: redisConfiguration, tls: try configuration.redis.tls(redisConfiguration),
      seed: UInt64.random(in: .min ... .max))
    registry = DeviceRegistry(
      loop: loop, redis: redis, prefix: configuration.redis.prefix, seed: .random(in: .min ... .max))
    let activities = ActivityRegistry(loop: loop, redis: redis, prefix: configuration.redis.prefix)
    activities.followStarts(of: registry)
    forgetter = DeviceForgetter(devices: registry, activities: activities)
  }

  package func close() {
    redis.close()
    loop.flush()
  }

  // MARK: - Looking

  /// The device with this id, else the one with this alert token (lower-case digits).
  package func find(_ name: String, in scope: AppScope) throws(DeviceRegistryFailure) -> Entry? {
    for set in [.id(name), Self.token(name).map { DeviceSet.token($0) }].compactMap(\.self) {
      let entries = try wait { registry.entries(of: set, limit: 16, in: scope, then: $0) }
      let meant = entries.first { entry in
        if case .token(let bytes) = set {
          entry.record.token?.bytes == bytes
        } else {
          entry.record.id.hasBytes(of: name)
        }
      }
      if let meant { return meant }
    }
    return nil
  }

  private static func token(_ text: String) -> [UInt8]? {
    Hex.classify(text.utf8.span) == .lowerCase ? Hex.bytes(text.utf8.span) : nil
  }

  /// All devices of a user.
  package func devices(
    of user: String, in scope: AppScope, _ tell: (Entry) -> Void
  ) throws(DeviceRegistryFailure) {
    try all(.user(user), after: nil, limit: nil, in: scope) { entry in
      if entry.record.user?.hasBytes(of: user) ?? false { tell(entry) }
    }
  }

  /// Tells all devices behind an ordinal, at most `limit`.
  /// - Returns: the last device's ordinal; nil: there was none.
  @discardableResult
  package func export(
    after ordinal: UInt32?, limit: Int?, in scope: AppScope, _ tell: (Entry) -> Void
  ) throws(DeviceRegistryFailure) -> UInt32? {
    try all(.everyone, after: ordinal, limit: limit, in: scope, tell)
  }

  @discardableResult
  private func all(
    _ set: DeviceSet, after ordinal: UInt32?, limit: Int?, in scope: AppScope, _ tell: (Entry) -> Void
  ) throws(DeviceRegistryFailure) -> UInt32? {
    var last = ordinal
    var left = limit ?? .max
    var reached: UInt32?
    while left > 0 {
      let count = min(left, DeviceRegistryClient.part)
      let ordinals = try wait { registry.members(of: set, after: last, limit: count, in: scope, then: $0) }
      guard let end = ordinals.last else { break }
      let records = try wait { registry.records(of: ordinals, in: scope, then: $0) }
      for (ordinal, record) in zip(ordinals, records) {
        guard let record else { continue }
        tell(Entry(ordinal: ordinal, record: record))
      }
      left -= ordinals.count
      last = end
      reached = end
    }
    return reached
  }

  /// - Parameter scope: nil: each that has devices.
  package func counts(_ scope: AppScope?) throws(DeviceRegistryFailure) -> [Count] {
    var counts: [Count] = []
    let asked = if let scope { [scope] } else { try scopes() }
    for scope in asked {
      let devices = try wait { registry.count(.everyone, in: scope, then: $0) }
      let withToken = try wait { registry.count(.hasToken, in: scope, then: $0) }
      counts.append(Count(scope: scope, devices: devices, withToken: withToken))
    }
    return counts
  }

  /// Each app and environment that has, or had, devices.
  package func scopes() throws(DeviceRegistryFailure) -> [AppScope] { try wait { registry.scopes(then: $0) } }

  // MARK: - Changing

  /// Forgets a device, or a user's, as of now, and what they are to Live Activities. Tells how many devices it were.
  package func forget(_ subject: ForgottenSubject, in scope: AppScope) throws(DeviceRegistryFailure) -> Int {
    try wait { forgetter.forget(subject, at: loop.now.unixMilliseconds, in: scope, then: $0) }
  }

  /// Applies registrations of devices, one a line; blank lines do not count.
  /// - Parameters:
  ///   - cursor: so many lines are passed over.
  ///   - progress: how far it came, also where it throws.
  ///   - fault: hears of the first wrong lines, with their numbers.
  /// - Throws: where Redis fails.
  package func importLines(
    _ input: FileHandle, in scope: AppScope, after cursor: Int, _ progress: inout Imported,
    fault: (_ line: Int, _ text: String) -> Void
  ) throws(DeviceRegistryFailure) {
    let reader = LineReader(input, lineLimit: DeviceLimits.registrationBytesMaximum) {}
    defer { reader.cancel() }
    var number = 0
    var open: Set<Int> = []
    var failure: DeviceRegistryFailure?
    var results: [(line: Int, result: Result<RegistrationAnswer, DeviceRegistryFailure>)] = []
    progress.cursor = cursor
    func refuse(_ line: Int, _ error: JobError, _ progress: inout Imported) {
      progress.wrong += 1
      if progress.wrong <= DeviceRegistryClient.faultsMaximum { fault(line, error.detail) }
    }
    /// What was answered in this turn. A line whose storing failed stays open: the cursor ends in front of it.
    func settle(_ progress: inout Imported) {
      turn()
      for (line, result) in results {
        switch result {
        case .failure(let error): failure = failure ?? error
        case .success(let answer):
          open.remove(line)
          if case .refused(let error) = answer { refuse(line, error, &progress) } else { progress.count(answer) }
        }
      }
      results = []
      progress.cursor = max(cursor, (open.min() ?? number + 1) - 1)
    }
    while failure == nil {
      let (lines, isAtEnd) = reader.take(orWaitMilliseconds: DeviceRegistryClient.waitMilliseconds)
      if lines.isEmpty, isAtEnd { break }
      for line in lines {
        guard failure == nil else { break }
        number += 1
        guard number > cursor else { continue }
        progress.read += 1
        do throws(JobError) {
          let (device, at) = try DeviceRegistryClient.device(line, in: scope, now: loop.now.unixMilliseconds)
          let own = number
          open.insert(own)
          registry.register(device, at: at, in: scope) { results.append((own, $0)) }
        } catch {
          refuse(number, error, &progress)
        }
        while open.count >= DeviceRegistryClient.importMaximum, failure == nil { settle(&progress) }
      }
      settle(&progress)
    }
    while !open.isEmpty, failure == nil { settle(&progress) }
    if let failure { throw failure }
  }

  private static func device(
    _ line: LineReader.Line, in scope: AppScope, now: Int64
  ) throws(JobError) -> (DeviceRegistration, at: Int64) {
    let registration: PushCore.Registration
    switch line {
    case .oversized(let count): throw RegistrationParser.oversized(count)
    case .bytes(let bytes): registration = try RegistrationParser.parse(bytes, now: now)
    }
    guard registration.scope == scope else {
      throw JobError(field: "app", rule: "is that of \(registration.scope), not of \(scope)")
    }
    guard case .device(let device) = registration.subject else {
      throw JobError(field: "kind", rule: "must be device: the others go to the queue of registrations")
    }
    return (device, registration.at)
  }

  // MARK: - The loop

  private func turn(waitMilliseconds: Int = DeviceRegistryClient.waitMilliseconds) {
    loop.poll(maximumWaitMilliseconds: waitMilliseconds)
    redis.turn()
    registry.turn()
    loop.flush()
  }

  /// Turns the loop until something is answered: everything asked is, in bounded time.
  private func wait<Value>(
    _ ask: (@escaping DeviceRegistry.Then<Value>) -> Void
  ) throws(DeviceRegistryFailure) -> Value {
    var answer: Result<Value, DeviceRegistryFailure>?
    // The loop's time is that of its last turn, which may be long ago.
    turn(waitMilliseconds: 0)
    ask { answer = $0 }
    registry.turn()
    loop.flush()
    while true {
      if let answer { return try answer.get() }
      turn()
    }
  }
}
