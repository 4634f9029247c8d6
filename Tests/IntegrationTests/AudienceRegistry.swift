import Foundation
import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport

/// A registry, segments and audiences' progress for one test, on a loop that turns while it waits.
final class AudienceRegistry {
  let loop: EventLoop
  let scope: AppScope
  let store: ExpansionStore
  let segments: SegmentStore
  let devices: DeviceRegistry
  let redis: RedisClient
  let prefix: String

  /// - Parameter prefix: begins the name of every key.
  init(url: String, prefix: String) throws {
    let loop = try EventLoop()
    self.loop = loop
    self.prefix = prefix
    guard let scope = AppScope(app: "com.example.app", environment: .production) else { throw TestFailure("no scope") }
    self.scope = scope
    redis = RedisClient(
      loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, timeoutMilliseconds: 30_000, seed: 1)
    store = ExpansionStore(redis, prefix: prefix) { loop.now.unixMilliseconds }
    segments = SegmentStore(redis: redis, prefix: prefix)
    devices = DeviceRegistry(loop: loop, redis: redis, prefix: prefix, seed: 1)
  }

  deinit {
    redis.close()
    loop.flush()
  }

  func job(_ id: String) -> AudienceID { AudienceID(id, in: scope) }

  func turn() {
    devices.turn()
    loop.flush()
    loop.poll(maximumWaitMilliseconds: 5)
    redis.turn()
  }

  /// Turns until the answer is there.
  func wait<Value, Failure: Error>(
    _ begin: (@escaping (Result<Value, Failure>) -> Void) -> Void
  ) throws -> Value {
    var answer: Result<Value, Failure>?
    // The loop's time is that of its last turn, which may be long ago.
    loop.poll(maximumWaitMilliseconds: 0)
    begin { answer = $0 }
    while true {
      devices.turn()
      loop.flush()
      if let answer { return try answer.get() }
      loop.poll(maximumWaitMilliseconds: 5)
      redis.turn()
    }
  }

  /// Registers the devices `d-<number>`, each with its own token and the named user.
  func register(
    _ numbers: Range<Int>, user: (Int) -> String? = { _ in nil }, tags: [DeviceRegistration.Tag] = [],
    hasToken: (Int) -> Bool = { _ in true }
  ) throws {
    var open = 0
    var failure: DeviceRegistryFailure?
    for number in numbers {
      var registration = DeviceRegistration(device: "d-\(number)")
      if let user = user(number) { registration.user = .set(user) }
      if hasToken(number) { registration.token = .set(AudienceRegistry.token(number)) }
      registration.tags = tags
      open += 1
      devices.register(registration, at: loop.now.unixMilliseconds, in: scope) { result in
        open -= 1
        if case .failure(let error) = result { failure = error }
      }
    }
    while open > 0 { turn() }
    if let failure { throw failure }
  }

  /// 32 bytes.
  static func token(_ number: Int) -> [UInt8] {
    [UInt8](repeating: 0xD0, count: 24) + (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * (7 - $0))) }
  }

  func put(segment: String, filter: String) throws {
    guard let code = SegmentCode(segment) else { throw TestFailure("no code: \(segment)") }
    let parsed = try SegmentFilterParser.parse(Array(filter.utf8))
    let _: Void = try wait {
      segments.put(code, parsed, in: scope, unixMilliseconds: loop.now.unixMilliseconds, then: $0)
    }
  }

  func forget(user: String) throws -> Int {
    try wait { devices.forget(.user(user), at: loop.now.unixMilliseconds, in: scope, then: $0) }
  }
}
