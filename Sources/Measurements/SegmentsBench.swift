import ArgumentParser
import Foundation
import PushCore
import PushIO
import PushStores

struct SegmentsBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "segments",
    abstract:
      "Evaluates a filter of five conditions over devices whose sets are all large: in memory, and read from a real Redis."
  )

  @Option(help: "Devices.")
  var devices = 10_000_000

  @Option(help: "Runs; the median is what counts.")
  var runs = 5

  @Option(help: "Where Redis is. Default: HERALD_REDIS_URL, else 127.0.0.1:6379.")
  var url: String?

  @Flag(help: "Print one JSON object instead of a table.")
  var json = false

  /// Conditions on a text, a flag, a number and a locale, and a negation.
  private static let filter =
    #"{"all":[{"tag":"plan","is":"gold"},{"any":[{"tag":"vip","is":true},{"tag":"level","at_least":5}]},{"locale":"en"},{"not":{"has":"token"}}]}"#

  /// Maximum CPU for ten million devices on one core.
  private static let targetMilliseconds = 2000.0

  func validate() throws {
    if devices < 1 || devices > 100_000_000 {
      throw ValidationError("--devices must be from 1 to 100000000, not \(devices)")
    }
    if runs < 1 { throw ValidationError("--runs must be at least 1, not \(runs)") }
  }

  func run() throws {
    let filter = try SegmentFilterParser.parse(Array(SegmentsBench.filter.utf8))
    let plan = try FilterPlan(filter, unixMilliseconds: 0, osVersions: [])
    let chunkCount = (devices + OrdinalChunk.count - 1) / OrdinalChunk.count
    let world = try SegmentsBenchWorld(url: url ?? BenchRedis.url)
    defer { world.close() }
    var chunks: [[ChunkPart]] = []
    var bytes = 0
    for chunk in 0..<chunkCount {
      let values = SegmentsBenchWorld.values(of: plan, chunk: chunk, devices: devices)
      bytes += values.reduce(0) { $0 + $1.count }
      chunks.append(values.compactMap(ChunkPart.init(value:)))
      try world.write(values, of: plan, chunk: chunk)
    }
    try world.begin(plan, devices: devices)
    var figures = Figures()
    var evaluation = FilterEvaluation(plan)
    for _ in 0..<runs {
      var used = ProcessUsage.current.cpuMicroseconds
      var count = 0
      for parts in chunks {
        evaluation.evaluate(parts)
        count += evaluation.result.count
      }
      figures.add("in memory", Double(ProcessUsage.current.cpuMicroseconds - used) / 1000, "CPU ms")
      used = ProcessUsage.current.cpuMicroseconds
      let start = ContinuousClock.now
      let streamed = try world.count(filter)
      let milliseconds = Double(ProcessUsage.current.cpuMicroseconds - used) / 1000
      figures.add("from Redis", milliseconds, "CPU ms")
      figures.add("from Redis, elapsed", microseconds(since: start) / 1000, "ms")
      figures.add("part of the target", milliseconds / SegmentsBench.targetMilliseconds, "of 2 s of one core")
      guard streamed == count else {
        throw SimulatorProcess.Failure(description: "\(streamed) devices found in Redis, \(count) in memory")
      }
    }
    try world.remove()
    try figures.show(
      "segments: five conditions, \(plan.sets.count) sets, \(devices) devices, \(bytes >> 20) MiB read", json: json)
  }
}

/// Sets of devices in the Redis of a measurement, stored as the registry stores them.
private final class SegmentsBenchWorld {
  private let loop: EventLoop
  private let redis: RedisClient
  private let prefix: String
  private let scope: AppScope
  private let keys: RegistryKeys
  private let url: String

  init(url: String) throws {
    self.url = url
    loop = try EventLoop()
    redis = RedisClient(loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, seed: 1)
    guard let scope = AppScope(app: "com.example.app", environment: .production) else {
      preconditionFailure("com.example.app is an app")
    }
    self.scope = scope
    prefix = "b\(UUID().uuidString.prefix(3)):"
    keys = RegistryKeys(prefix: prefix, scope: scope)
  }

  func close() {
    redis.close()
    loop.flush()
  }

  /// Half of all are gold, one in ten is a VIP, four in ten are English, nine in ten have a token; levels are 0 to 15.
  static func values(of plan: FilterPlan, chunk: Int, devices: Int) -> [[UInt8]] {
    let count = min(OrdinalChunk.count, devices - chunk * OrdinalChunk.count)
    var random = SeededRandom(seed: UInt64(chunk))
    let levels = (0..<count).map { _ in SortableNumber.bits(Double(random.next() & 15)) }
    return plan.sets.map { set in
      var value = [UInt8](repeating: 0, count: OrdinalChunk.bitmapBytes)
      for place in 0..<count {
        let isMember: Bool
        switch set {
        case .tagBit(_, let bit): isMember = levels[place] >> UInt64(bit) & 1 == 1
        case .tagText: isMember = random.next() % 10 < 5
        case .tagFlag: isMember = random.next() % 10 < 1
        case .locale: isMember = random.next() % 10 < 4
        case .hasToken: isMember = random.next() % 10 < 9
        default: isMember = true
        }
        if isMember { value[place >> 3] |= 0x80 >> UInt8(place & 7) }
      }
      // An empty set has no key.
      return value.contains { $0 != 0 } ? value : []
    }
  }

  func write(_ values: [[UInt8]], of plan: FilterPlan, chunk: Int) throws {
    for (set, value) in zip(plan.sets, values) where !value.isEmpty {
      let name = DeviceSetName(set)
      try run(["SET", keys.chunk(chunk, of: name)], last: value)
      // Buckets have the word as bytes, the lowest first.
      let script = "return redis.call('HSET', KEYS[1], ARGV[1], '*')"
      let field = (0..<8).map { UInt8(truncatingIfNeeded: name.word >> UInt64($0 * 8)) }
      if chunk == 0 { try run(["EVAL", script, "1", keys.bucket(of: name)], last: field) }
    }
  }

  func begin(_ plan: FilterPlan, devices: Int) throws {
    try run(["SET", keys.next, String(devices)])
  }

  func count(_ filter: SegmentFilter) throws -> Int {
    let evaluator = SegmentEvaluator(redis: redis, prefix: prefix)
    return try wait { then in
      evaluator.open(.filter(filter), in: scope, unixMilliseconds: 0) { result in
        switch result {
        case .failure(let failure): then(.failure(failure))
        case .success(let reader): reader.count(then: then)
        }
      }
    }
  }

  func remove() throws {
    let session = try BenchRedis.session(url)
    defer { session.close() }
    try BenchRedis.remove(prefix: prefix, from: session)
  }

  private func run(_ command: [String], last: [UInt8]? = nil) throws {
    _ = try wait { then in redis.call(command, last: last, key: keys.next) { then($0) } }
  }

  private func wait<Value, Failure: Error>(
    _ ask: (@escaping (Result<Value, Failure>) -> Void) -> Void
  ) throws -> Value {
    var answer: Result<Value, Failure>?
    loop.poll(maximumWaitMilliseconds: 0)
    ask { answer = $0 }
    loop.flush()
    while true {
      if let answer { return try answer.get() }
      loop.poll(maximumWaitMilliseconds: 50)
      redis.turn()
      loop.flush()
    }
  }
}
