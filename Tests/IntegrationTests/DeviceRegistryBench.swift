import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Registries of devices over a real Redis, on one loop, driven turn by turn, and their data in Redis.
final class DeviceRegistryBench {
  /// The data in Redis, in readable form.
  struct Dump {
    /// By ordinal.
    var records: [UInt32: DeviceRecord] = [:]
    /// By bucket and word.
    var sets: [String: Set<UInt32>] = [:]
    /// Sets that are stored in chunks.
    var large: Set<String> = []
    var free: Set<UInt32> = []
    var next: UInt32 = 0
    /// Keys of chunks without a set.
    var strayChunks: [String] = []

    func ids(_ ordinals: Set<UInt32>) -> Set<String> { Set(ordinals.map { records[$0]?.id ?? "#\($0)" }) }
  }

  let loop: EventLoop
  let scope: AppScope
  let prefix: String
  private(set) var registries: [DeviceRegistry] = []
  private var clients: [RedisClient] = []
  private let url: String
  /// For the tests' own commands.
  let client: RedisClient

  init(url: String, registries count: Int = 1, prefix: String? = nil) throws {
    self.url = url
    loop = try EventLoop()
    self.prefix = prefix ?? "devices-\(UInt32.random(in: 0 ... .max)):"
    guard let scope = AppScope(app: "com.example.app", environment: .sandbox) else { throw TestFailure("no scope") }
    self.scope = scope
    client = RedisClient(loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, seed: 99)
    for _ in 0..<count { try addRegistry() }
  }

  /// A registry as in another process.
  func addRegistry() throws {
    let client = RedisClient(
      loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, timeoutMilliseconds: 20_000,
      seed: UInt64(registries.count))
    clients.append(client)
    registries.append(DeviceRegistry(loop: loop, redis: client, prefix: prefix, seed: UInt64(registries.count)))
  }

  /// Kills a registry: its connection closes, and it sends nothing more.
  func kill(_ index: Int) throws {
    clients[index].close()
    // Redis still carries out what it has received, 16 KiB of each connection between two answers to another one. No dump may come between.
    for _ in 0..<50 { _ = try redis("PING") }
  }

  var keys: RegistryKeys { registries[0].keys(scope) }

  func turn() {
    loop.poll(maximumWaitMilliseconds: 5)
    client.turn()
    for client in clients { client.turn() }
    for registry in registries { registry.turn() }
    loop.flush()
  }

  /// Turns until the condition holds; false after `milliseconds`.
  func turn(milliseconds: Int64 = 30_000, until isDone: () -> Bool) -> Bool {
    turn()
    let start = loop.now.monotonic
    while !isDone() {
      turn()
      if loop.now.monotonic.milliseconds(since: start) > milliseconds { return false }
    }
    return true
  }

  /// Waits for one answer.
  func wait<Value, Failure: Error>(_ ask: (@escaping (Result<Value, Failure>) -> Void) -> Void) throws -> Value {
    var answer: Result<Value, Failure>?
    ask { answer = $0 }
    guard turn(until: { answer != nil }), let answer else { throw TestFailure("no answer") }
    return try answer.get()
  }

  @discardableResult
  func redis(_ arguments: String..., last: [UInt8]? = nil) throws -> RedisReply {
    try wait { client.call(arguments, last: last, key: keys.next, then: $0) }
  }

  func register(_ registration: DeviceRegistration, at: Int64, by index: Int = 0) throws -> RegistrationAnswer {
    try wait { registries[index].register(registration, at: at, in: scope, then: $0) }
  }

  func forget(_ subject: ForgottenSubject, at: Int64, by index: Int = 0) throws -> Int {
    try wait { registries[index].forget(subject, at: at, in: scope, then: $0) }
  }

  // MARK: - Contents of Redis

  func dump() throws -> Dump {
    var dump = Dump()
    dump.next = UInt32(try redis("GET", keys.next).text ?? "0") ?? 0
    dump.free = Set(
      try strings(redis("ZRANGE", keys.free, "0", "-1")).compactMap { UInt32(String(decoding: $0, as: UTF8.self)) })
    // A registry without cached words reads all records.
    let reader = DeviceRegistry(loop: loop, redis: client, prefix: prefix, seed: 0)
    registries.append(reader)
    defer { registries.removeLast() }
    for start in stride(from: UInt32(0), to: dump.next, by: 500) {
      let ordinals = Array(start..<min(dump.next, start + 500))
      let records = try wait { reader.records(of: ordinals, in: scope, then: $0) }
      for (ordinal, record) in zip(ordinals, records) { dump.records[ordinal] = record }
    }
    var chunks: Set<String> = []
    var buckets: [String] = []
    for key in try strings(redis("KEYS", keys.tag + "*")).map({ String(decoding: $0, as: UTF8.self) }) {
      let name = String(key.dropFirst(keys.tag.count))
      if name.hasPrefix("c:") { chunks.insert(name) }
      if name.hasPrefix("p:") { buckets.append(name) }
    }
    for bucket in buckets {
      let fields = try strings(redis("HGETALL", keys.tag + bucket))
      for index in stride(from: 0, to: fields.count, by: 2) {
        let digits = Hex.text(fields[index].reversed())
        let name = "\(bucket.dropFirst(2)):\(digits)"
        if fields[index + 1] == Array("*".utf8) {
          dump.large.insert(name)
          dump.sets[name] = try members(digits, &chunks, dump.next)
        } else {
          let words = fields[index + 1]
          let ordinals = stride(from: 0, to: words.count, by: 4).map { at in
            words[at..<at + 4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
          }
          #expect(ordinals == ordinals.sorted() && 1...15 ~= ordinals.count, "\(name): \(ordinals)")
          dump.sets[name] = Set(ordinals)
        }
      }
    }
    dump.strayChunks = chunks.sorted()
    return dump
  }

  private func members(_ digits: String, _ chunks: inout Set<String>, _ next: UInt32) throws -> Set<UInt32> {
    var members: Set<UInt32> = []
    for chunk in 0...Int(next) / OrdinalChunk.count {
      let name = "c:\(digits):\(chunk)"
      guard case .bulk(let bytes) = try redis("GET", keys.tag + name) else { continue }
      chunks.remove(name)
      let base = UInt32(chunk * OrdinalChunk.count)
      if bytes.count == OrdinalChunk.bitmapBytes {
        for place in 0..<OrdinalChunk.count where bytes[place / 8] & (128 >> UInt8(place % 8)) != 0 {
          members.insert(base + UInt32(place))
        }
      } else {
        let places = stride(from: 0, to: bytes.count, by: 2).map { UInt32(bytes[$0]) | UInt32(bytes[$0 + 1]) << 8 }
        #expect(places == Set(places).sorted() && 1...512 ~= places.count, "\(name)")
        members.formUnion(places.map { base + $0 })
      }
    }
    return members
  }

  private func strings(_ reply: RedisReply) throws -> [[UInt8]] {
    guard case .array(let replies) = reply else { throw TestFailure("no array: \(reply)") }
    return replies.map { if case .bulk(let bytes) = $0 { bytes } else { [] } }
  }

  /// Devices, sets and ordinals are those of the model, and there is nothing else.
  func expect(_ model: RegistryModel, _ comment: Comment, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let dump = try dump()
    let records = Dictionary(grouping: dump.records.values, by: \.id)
    #expect(records.allSatisfy { $1.count == 1 }, comment, sourceLocation: sourceLocation)
    #expect(Set(records.keys) == Set(model.devices.keys), comment, sourceLocation: sourceLocation)
    for (id, found) in records {
      #expect(found[0].modelState == model.devices[id]?.state, "\(comment): \(id)", sourceLocation: sourceLocation)
    }
    expect(dump, model.sets, comment, sourceLocation: sourceLocation)
  }

  /// Sets and ordinals match the existing records.
  func expectConsistent(_ comment: Comment, sourceLocation: SourceLocation = #_sourceLocation) throws {
    let dump = try dump()
    var sets: [DeviceSet: Set<String>] = [:]
    for record in dump.records.values {
      for set in record.memberships { sets[set, default: []].insert(record.id) }
    }
    #expect(Set(dump.records.values.map(\.id)).count == dump.records.count, comment, sourceLocation: sourceLocation)
    for (set, ids) in sets {
      switch set {
      case .token, .startToken:
        #expect(ids.count == 1, "\(comment): \(set) has \(ids.sorted())", sourceLocation: sourceLocation)
      default: break
      }
    }
    expect(dump, sets, comment, sourceLocation: sourceLocation)
  }

  private func expect(
    _ dump: Dump, _ sets: [DeviceSet: Set<String>], _ comment: Comment, sourceLocation: SourceLocation
  ) {
    var left = dump.sets
    for (set, ids) in sets {
      let name = DeviceSetName(set)
      let digits = String(name.word, radix: 16)
      let key = "\(name.bucket):\(String(repeating: "0", count: 16 - digits.count))\(digits)"
      let found = left.removeValue(forKey: key) ?? []
      #expect(dump.ids(found) == ids, "\(comment): \(set)", sourceLocation: sourceLocation)
      #expect(ids.count < 16 || dump.large.contains(key), "\(comment): \(set) is large", sourceLocation: sourceLocation)
    }
    #expect(left.isEmpty, "\(comment): sets that should not be", sourceLocation: sourceLocation)
    #expect(dump.strayChunks.isEmpty, comment, sourceLocation: sourceLocation)
    let used = Set(dump.records.keys)
    #expect(used.isDisjoint(with: dump.free), comment, sourceLocation: sourceLocation)
    #expect(
      used.union(dump.free) == Set(0..<dump.next), "\(comment): an ordinal is lost", sourceLocation: sourceLocation)
  }
}
