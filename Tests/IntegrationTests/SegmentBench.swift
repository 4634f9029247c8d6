import PushCore
import PushIO
import PushStores
import TestSupport

/// Segments over a real Redis, with devices in the registry's format.
final class SegmentBench {
  let loop: EventLoop
  let redis: RedisClient
  let store: SegmentStore
  let evaluator: SegmentEvaluator
  let registry: DeviceRegistry
  let scope: AppScope
  let keys: RegistryKeys

  init(url: String, prefix: String, app: String = "com.example.app") throws {
    loop = try EventLoop()
    redis = RedisClient(loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, seed: 1)
    store = SegmentStore(redis: redis, prefix: prefix)
    evaluator = SegmentEvaluator(redis: redis, prefix: prefix)
    registry = DeviceRegistry(loop: loop, redis: redis, prefix: prefix, seed: 1)
    guard let scope = AppScope(app: app, environment: .sandbox) else { throw TestFailure("\(app) is no app") }
    self.scope = scope
    keys = RegistryKeys(prefix: prefix, scope: scope)
  }

  deinit { redis.close() }

  // MARK: - Queries

  /// Turns the loop until the condition holds; false: not within 20 s.
  func turn(until isDone: () -> Bool) -> Bool {
    let deadline = loop.now.monotonic.adding(milliseconds: 20_000)
    while !isDone() {
      guard loop.now.monotonic < deadline else { return false }
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 20)
      redis.turn()
      registry.turn()
    }
    return true
  }

  func wait<Value>(_ ask: (@escaping SegmentThen<Value>) -> Void) throws -> Value {
    var answer: Result<Value, SegmentFailure>?
    // The loop's time is that of its last turn, which may be long ago.
    loop.poll(maximumWaitMilliseconds: 0)
    ask { answer = $0 }
    guard turn(until: { answer != nil }), let answer else { throw TestFailure("not answered within 20 s") }
    return try answer.get()
  }

  func filter(_ text: String) throws -> SegmentFilter { try SegmentFilterParser.parse(Array(text.utf8)) }

  func code(_ text: String) throws -> SegmentCode {
    guard let code = SegmentCode(text) else { throw TestFailure("\(text) is no code") }
    return code
  }

  func reader(_ query: AudienceQuery, now: Int64 = 0) throws -> AudienceReader {
    try wait { evaluator.open(query, in: scope, unixMilliseconds: now, then: $0) }
  }

  /// All ordinals of an audience.
  func ordinals(_ query: AudienceQuery, now: Int64 = 0, from chunk: Int = 0) throws -> [UInt32] {
    let reader = try reader(query, now: now)
    var ordinals: [UInt32] = []
    try wait { then in
      reader.stream(
        from: chunk,
        each: {
          _ = $1.appendOrdinals(chunk: $0, to: &ordinals)
          return true
        }, then: then)
    }
    return ordinals
  }

  // MARK: - Devices

  /// Registers devices like a worker, and waits for the last of them.
  func register(_ devices: [(registration: DeviceRegistration, at: Int64)]) throws {
    var left = devices.count
    var failure: DeviceRegistryFailure?
    for device in devices {
      registry.register(device.registration, at: device.at, in: scope) { result in
        left -= 1
        if case .failure(let error) = result { failure = error }
      }
    }
    registry.turn()
    guard turn(until: { left == 0 }) else { throw TestFailure("\(left) registrations were not answered within 20 s") }
    if let failure { throw failure }
  }

  /// The ids of devices.
  func ids(_ ordinals: [UInt32]) throws -> [String] {
    var answer: Result<[DeviceRecord?], DeviceRegistryFailure>?
    registry.records(of: ordinals, in: scope) { answer = $0 }
    guard turn(until: { answer != nil }), let answer else { throw TestFailure("no records within 20 s") }
    return try answer.get().map { $0?.id ?? "nobody" }
  }

  /// Stores a set in the registry's format. - Parameter ordinals: ascending.
  func put(_ set: DeviceSet, _ ordinals: [UInt32]) throws {
    let name = DeviceSetName(set)
    let word = (0..<8).map { UInt8(truncatingIfNeeded: name.word >> UInt64($0 * 8)) }
    let isLarge = ordinals.count > 15
    let value =
      isLarge
      ? [UInt8(ascii: "*")]
      : ordinals.flatMap { ordinal in (0..<4).map { UInt8(truncatingIfNeeded: ordinal >> UInt32($0 * 8)) } }
    try write(keys.bucket(of: name), field: word, value)
    guard isLarge else { return }
    for (chunk, members) in Dictionary(grouping: ordinals, by: OrdinalChunk.index(of:)) {
      try write(keys.chunk(chunk, of: name), FilterWorld.value(members.map(OrdinalChunk.place(of:))))
    }
  }

  func put(_ world: FilterWorld, ordinalCount: Int) throws {
    for (set, ordinals) in world.sets { try put(set, ordinals) }
    try write(keys.next, Array("\(ordinalCount)".utf8))
    for version in world.osVersions {
      try check { redis.call(["SADD", keys.osVersions, version.text], key: keys.next, then: $0) }
    }
  }

  func write(_ key: String, _ value: [UInt8]) throws {
    try check { redis.call(["SET", key], last: value, key: key, then: $0) }
  }

  private func write(_ key: String, field: [UInt8], _ value: [UInt8]) throws {
    var arguments = RedisArguments()
    arguments.append(field)
    arguments.append(value)
    try check { redis.run(SegmentBench.setField, keys: [key], arguments, then: $0) }
  }

  private static let setField = LuaScript("return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])")

  private func check(_ ask: (@escaping RedisClient.Answer) -> Void) throws {
    var reply: Result<RedisReply, RedisClient.Failure>?
    ask { reply = $0 }
    guard turn(until: { reply != nil }), let reply else { throw TestFailure("Redis did not answer within 20 s") }
    if case .error(let error) = try reply.get() { throw TestFailure("\(error)") }
  }
}
