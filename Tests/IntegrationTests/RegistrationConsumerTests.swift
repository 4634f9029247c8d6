import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// Registrations from a real RabbitMQ to a real Redis: acknowledged once Redis has them, refused with a reason, never lost.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct RegistrationConsumerTests {
  /// A private queue and its consumers.
  private struct ConsumerWorld {
    let rabbitmq: RabbitMQServer
    let redis: String
    let prefix: String
    let topology: Topology

    init(redis: String, rabbitmq: RabbitMQServer? = nil) throws {
      self.rabbitmq = try rabbitmq ?? .shared()
      self.redis = redis
      prefix = "registrations-\(UInt32.random(in: 0 ... .max))"
      topology = Topology(prefix: prefix, resultsLog: nil)
    }

    private func admin() throws -> AMQPAdmin {
      let admin = try AMQPAdmin(patientURL: rabbitmq.url)
      try admin.perform(all: topology.declarations)
      return admin
    }

    func publish(_ bodies: [String]) throws {
      let admin = try admin()
      defer { admin.close() }
      let exchange = AMQPExchange("", isMandatory: true)
      let properties = AMQPProperties()
      for (index, body) in bodies.enumerated() {
        properties.reset()
        let id = "m-\(index)"
        properties.setMessageID(id.utf8.span)
        try admin.publish(
          to: exchange, routingKey: topology.registrationsQueue, properties: properties, body: Array(body.utf8))
      }
      try admin.waitForConfirms()
      #expect(admin.results.confirmed == bodies.count)
    }

    /// Ready and unacknowledged messages of the queue.
    func queued() throws -> Int {
      let listed = try rabbitmq.rabbitmqctl(["list_queues", "name", "messages"])
      let line = listed.split(separator: "\n").first { $0.hasPrefix(topology.registrationsQueue + "\t") }
      return line.flatMap { Int($0.split(separator: "\t")[1]) } ?? -1
    }

    /// The queue of dead letters refuses.
    func fillDead() throws {
      try admin().close()
      try rabbitmq.rabbitmqctl([
        "set_policy", "--apply-to", "queues", prefix, "^\(topology.deadQueue)$",
        #"{"max-length":1,"overflow":"reject-publish"}"#,
      ])
      let outside = OutsideClient(port: rabbitmq.port)
      for body in ["taken", "refused"] { try outside.publish(body, exchange: "", routingKey: topology.deadQueue) }
    }

    func liftLimit() throws { try rabbitmq.rabbitmqctl(["clear_policy", prefix]) }

    func dead() throws -> [OutsideClient.Message] { try OutsideClient(port: rabbitmq.port).drain(topology.deadQueue) }

    func consumer(_ change: (inout RegistrationConsumerSettings) -> Void = { _ in }) throws -> RegistrationConsumer {
      var settings = RegistrationConsumerSettings(
        rabbitmq: RabbitMQSettings(
          addresses: [try AMQPAddress(rabbitmq.url)], tls: nil, topology: topology, laneName: "test/registrations",
          prefetch: 2, randomSeed: 1),
        redis: try RedisConfiguration(url: redis), redisTLS: nil, prefix: "\(prefix):")
      settings.drainTimeoutMilliseconds = 10_000
      settings.retryMaximumMilliseconds = 400
      change(&settings)
      let consumer = RegistrationConsumer(settings, logger: Logger(label: "test"), untilEmpty: true)
      consumer.start(WallClock())
      return consumer
    }
  }

  private func wait(_ what: Comment, until isSo: () -> Bool) {
    let isThere = ChildProcess.poll(timeoutMilliseconds: 90_000, everyMilliseconds: 20) { () -> Bool? in
      isSo() ? true : nil
    }
    #expect(isThere == true, what)
  }

  private func end(_ consumer: RegistrationConsumer) {
    consumer.drain()
    consumer.join()
  }

  private func device(_ number: Int, _ members: String = "", at: Int64 = 1_790_000_000_000) -> String {
    "{\"kind\":\"device\",\"at\":\(at),\"app\":\"com.example.app\",\"environment\":\"sandbox\",\"device\":\"hwid-\(number)\"\(members)}"
  }

  @Test func theSoundAreStoredAndTheOthersAreDeadLetters() throws {
    let world = try ConsumerWorld(redis: RedisServer.shared().url)
    let head = "\"at\":1790000000001,\"app\":\"com.example.app\",\"environment\":\"sandbox\""
    // Activities are remembered for 12 hours.
    let recent = head.replacingOccurrences(of: "1790000000001", with: "\(Int64(Date().timeIntervalSince1970 * 1000))")
    let bad = [
      "{", device(1, ",\"tokn\":\"00\""), device(2, ",\"tags\":{\"n\":{\"increment\":1e308}}"),
      device(1, ",\"user\":\"" + String(repeating: "x", count: 70_000) + "\""),
    ]
    try world.publish(
      [
        device(1, ",\"user\":\"u\""), device(2, ",\"user\":\"u\",\"tags\":{\"n\":1e308}"),
        device(3, ",\"user\":\"v\""),
        device(3, ",\"user\":\"w\"", at: 1_789_999_999_999), "{\"kind\":\"forget\",\(head),\"user\":\"v\"}",
        "{\"kind\":\"activity\",\(recent),\"device\":\"hwid-1\",\"activity\":\"ride\",\"token\":\"01010101\"}",
      ] + bad)
    let consumer = try world.consumer()
    wait("the queue is empty") { consumer.isExhausted }
    let results = consumer.counters.results
    end(consumer)
    #expect(try world.queued() == 0)
    // The forget may overtake the registrations that it is about; the result is the same.
    let kept = results[.init(kind: "device", result: "added"), default: 0]
    let forgotten = results[.init(kind: "device", result: "forgotten"), default: 0]
    #expect((kept, forgotten) == (3, 0) || (kept, forgotten) == (2, 2), "\(results)")
    #expect(results[.init(kind: "unknown", result: "invalid")] == 3)
    #expect(results[.init(kind: "device", result: "invalid")] == 1)
    #expect(results[.init(kind: "activity", result: "changed")] == 1, "\(results)")
    let letters = try world.dead()
    #expect(letters.count == 4 && letters.allSatisfy { $0.headers["x-herald-class"] == "registrations" })
    for (body, (reason, detail)) in zip(
      bad,
      [
        ("invalid", "body: is not JSON"), ("invalid", "tokn: is not a key of a registration; did you mean token?"),
        ("invalid", "tags.n: cannot be incremented any further"),
        ("invalid", "body: must be at most 65536 bytes, not 70"),
      ])
    {
      let letter = letters.first { $0.body == Array(body.utf8) }
      #expect(letter?.headers["x-herald-reason"] == reason && letter?.messageID?.hasPrefix("m-") == true)
      #expect(letter?.headers["x-herald-detail"]?.hasPrefix(detail) == true, "\(letter?.headers ?? [:])")
    }
    let bench = try DeviceRegistryBench(url: world.redis, prefix: "\(world.prefix):")
    #expect(Set(try bench.dump().records.values.map(\.id)) == ["hwid-1", "hwid-2"])
    try bench.expectConsistent("stored")
  }

  /// Above the limit up to which Herald keeps a body, its dead letter names the message, its size and both limits.
  @Test func hugeRegistration_isToldWithItsIDAndSize() throws {
    let world = try ConsumerWorld(redis: RedisServer.shared().url)
    let body = device(1, ",\"user\":\"" + String(repeating: "x", count: 9 << 20) + "\"")
    try world.publish([body, device(2)])
    let consumer = try world.consumer()
    wait("the queue is empty") { consumer.isExhausted }
    end(consumer)
    #expect(try world.queued() == 0)
    let letters = try world.dead()
    #expect(letters.map(\.messageID) == ["m-0"])
    #expect(
      letters.first?.headers["x-herald-detail"]
        == "body: must be at most 65536 bytes, not \(body.utf8.count); above 8388608 it is not kept")
    #expect(letters.first?.headers["x-herald-reason"] == "invalid")
  }

  /// An app's server whose clock is a day ahead forgets a device. One whose clock is right registers it again.
  @Test func forgetFromAClockAhead_shutsNobodyOut() throws {
    let world = try ConsumerWorld(redis: RedisServer.shared().url)
    let now = Int64(Date().timeIntervalSince1970 * 1000)
    func forget(at: Int64) -> String {
      "{\"kind\":\"forget\",\"at\":\(at),\"app\":\"com.example.app\",\"environment\":\"sandbox\",\"device\":\"hwid-1\"}"
    }
    func result(of body: String) throws -> [String] {
      try world.publish([body])
      let consumer = try world.consumer()
      wait("the queue is empty") { consumer.isExhausted }
      defer { end(consumer) }
      return consumer.counters.results.keys.map(\.result)
    }
    #expect(try result(of: device(1, at: now - 30_000)) == ["added"])
    _ = try result(of: forget(at: now + 86_400_000))
    #expect(try result(of: device(1, at: now - 20_000)) == ["added"])
    // Its clock is a little ahead of Redis'.
    #expect(try result(of: device(2, at: now + 20_000)) == ["added"])
    _ = try result(of: forget(at: now + 86_400_000).replacing("hwid-1", with: "hwid-2"))
    #expect(try result(of: device(2, at: now + 21_000)) == ["added"])
    _ = try result(of: forget(at: now - 10_000))
    #expect(try result(of: device(1, at: now - 15_000)) == ["forgotten"])
    #expect(try result(of: device(1, at: now - 5_000)) == ["added"])
  }

  /// Something else wrote a key of one app. Redis answers, so it is not away, and the next app's registrations are stored.
  @Test(arguments: [["RPUSH", "x"], ["SET", "9223372036854775807"]])
  func foreignKeyOfAnApp_holdsUpNoOther(_ write: [String]) throws {
    let world = try ConsumerWorld(redis: RedisServer.shared().url)
    try RedisServer.shared().cli([write[0], "\(world.prefix):{devices:sandbox:com.example.app}:next", write[1]])
    let count: UInt64 = 200
    try world.publish(
      (0..<Int(count)).map { device($0) } + [device(0).replacing("com.example.app", with: "com.example.other")])
    let consumer = try world.consumer { $0.registrationsMaximum = 50 }
    wait("the queue is empty") { consumer.isExhausted }
    let results = consumer.counters.results
    end(consumer)
    #expect(
      results == [.init(kind: "device", result: "added"): 1, .init(kind: "device", result: "failed"): count],
      "\(results)")
    let dead = try world.dead()
    #expect(dead.count == Int(count))
    #expect(
      dead.first?.headers["x-herald-detail"]?.contains("does something else use this key?") == true, "\(dead.prefix(1))"
    )
  }

  /// Something else wrote the keys of one device's user, or the mark that a user was forgotten. Registrations that came together with it are
  /// stored.
  @Test func whatMeetsAForeignKey_takesNoOtherWithIt() throws {
    let redis = try RedisServer.shared()
    let world = try ConsumerWorld(redis: redis.url)
    func store(_ bodies: [String]) throws -> [String: UInt64] {
      try world.publish(bodies)
      let consumer = try world.consumer()
      wait("the queue is empty") { consumer.isExhausted }
      defer { end(consumer) }
      return consumer.counters.results.reduce(into: [:]) { $0[$1.key.result, default: 0] += $1.value }
    }
    func buckets() throws -> Set<String> {
      Set(try redis.cli(["--scan", "--pattern", "\(world.prefix):{*}:p:*"]).split(separator: "\n").map(String.init))
    }
    _ = try store([device(0)])
    let shared = try buckets()
    _ = try store([device(0, ",\"user\":\"u\"", at: 1_790_000_000_001)])
    let keys = try buckets().subtracting(shared)
    try #require(!keys.isEmpty)
    for key in keys { try redis.cli(["SET", key, "another program's"]) }
    let sound = (1...100).map { device($0) }
    let results = try store(Array(sound[..<50]) + [device(101, ",\"user\":\"u\"")] + sound[50...])
    #expect(results == ["added": 100, "failed": 1], "\(results)")
    // A mark, as the build before named it.
    try redis.cli(["SET", "\(world.prefix):{devices:sandbox:com.example.app}:forgotten:u:v", "yes"])
    for key in try redis.cli(["--scan", "--pattern", "\(world.prefix):{*}:forgotten:*"]).split(separator: "\n") {
      try redis.cli(["SET", String(key), "another program's"])
    }
    let marked = try store((201...220).map { device($0) } + [device(221, ",\"user\":\"v\"")])
    #expect((marked["added"] ?? 0) >= 20 && marked.values.reduce(0, +) == 21, "\(marked)")
  }

  /// Redis is away: registrations wait, unacknowledged, and are stored when it is back.
  @Test func whileRedisIsAwayNothingIsLost() throws {
    let redis = try RedisServer()
    let world = try ConsumerWorld(redis: redis.url)
    redis.stop()
    try world.publish((0..<300).map { device($0) })
    let consumer = try world.consumer { $0.registrationsMaximum = 100 }
    wait("registrations wait") { consumer.counters.waiting > 0 }
    #expect(try world.queued() == 300)
    #expect(consumer.counters.inFlight <= 100 && !consumer.counters.isConnected)
    try redis.start()
    wait("all are stored") { consumer.isExhausted }
    #expect(consumer.counters.results == [.init(kind: "device", result: "added"): 300])
    // Frozen in the middle: the requests may have been executed, and are executed again.
    redis.pause()
    try world.publish((0..<300).map { device($0, ",\"user\":\"u\"", at: 1_790_000_000_001) })
    wait("registrations wait") { consumer.counters.inFlight == 100 }
    redis.resume()
    wait("all are stored") { consumer.isExhausted }
    end(consumer)
    let bench = try DeviceRegistryBench(url: world.redis, prefix: "\(world.prefix):")
    let dump = try bench.dump()
    #expect(dump.records.count == 300 && dump.records.values.allSatisfy { $0.user == "u" })
    try bench.expectConsistent("stored")
    #expect(try world.dead().isEmpty)
  }

  /// Two workers share the queue, and the broker closes both connections.
  @Test func severalWorkersMayShareTheQueue() throws {
    // Its connections are closed: nobody else's tests have it.
    let world = try ConsumerWorld(redis: RedisServer.shared().url, rabbitmq: RabbitMQServer())
    let consumers = try (0..<2).map { _ in try world.consumer { $0.registrationsMaximum = 50 } }
    for round in 0..<3 {
      try world.publish(
        (0..<400).map {
          device($0 % 80, ",\"token\":\"abcd00\($0 % 50 + 10)\"", at: 1_790_000_000_000 + Int64(round * 400 + $0))
        })
      if round == 1 { try world.rabbitmq.rabbitmqctl(["close_all_connections", "test"]) }
    }
    // What a lost connection had comes back a little later.
    wait("the queue is empty") { consumers.allSatisfy(\.isExhausted) && (try? world.queued()) == 0 }
    for consumer in consumers { end(consumer) }
    let bench = try DeviceRegistryBench(url: world.redis, prefix: "\(world.prefix):")
    let records = try bench.dump().records.values
    #expect(records.count == 80 && records.count { $0.token != nil } == 50)
    try bench.expectConsistent("shared")
  }

  /// Unstored registrations are requeued at the end; one that was delivered too often becomes a dead letter.
  @Test func whatIsGivenToWorkersTooOftenIsPutAside() throws {
    let redis = try RedisServer()
    let world = try ConsumerWorld(redis: redis.url)
    redis.stop()
    try world.publish([device(1)])
    for _ in 0..<2 {
      let consumer = try world.consumer()
      wait("it waits") { consumer.counters.waiting == 1 }
      end(consumer)
    }
    let consumer = try world.consumer { $0.deliveriesMaximum = 2 }
    wait("it is dead-lettered") { consumer.counters.results[.init(kind: "device", result: "redelivered")] == 1 }
    wait("the queue is empty") { consumer.isExhausted }
    end(consumer)
    let letters = try world.dead()
    #expect(letters.map(\.body) == [Array(device(1).utf8)])
    #expect(letters.first?.headers["x-herald-reason"] == "redelivered")
  }

  private func invalid(_ consumer: RegistrationConsumer) -> UInt64 {
    consumer.counters.results.reduce(0) { $0 + ($1.key.result == "invalid" ? $1.value : 0) }
  }

  /// Its bytes are not kept. While its dead letter is refused, it comes again now and then, and holds up nobody. Each is told once.
  @Test func oversizedRegistrationWhoseDeadLetterIsRefused_waits() throws {
    let world = try ConsumerWorld(redis: RedisServer.shared().url)
    try world.fillDead()
    let oversized = device(1, ",\"user\":\"" + String(repeating: "x", count: 70_000) + "\"")
    try world.publish([oversized, oversized, "{", device(2)])
    let consumer = try world.consumer()
    wait("the sound one is stored") { consumer.counters.results[.init(kind: "device", result: "added")] == 1 }
    // Long enough for the channel to be what refuses.
    _ = ChildProcess.poll(timeoutMilliseconds: 3_000, everyMilliseconds: 20) { invalid(consumer) > 0 ? true : nil }
    #expect(invalid(consumer) == 0, "\(consumer.counters.results)")
    try world.liftLimit()
    wait("the queue is empty") { consumer.isExhausted }
    #expect(invalid(consumer) == 3, "\(consumer.counters.results)")
    end(consumer)
    let letters = try world.dead().filter { $0.headers["x-herald-reason"] == "invalid" }
    #expect(letters.map(\.body.count).sorted() == [1, oversized.utf8.count, oversized.utf8.count])
  }

  /// RabbitMQ takes no publishes, and delivers.
  @Test func oversizedRegistrationDuringAnAlarm_waits() throws {
    let world = try ConsumerWorld(redis: RedisServer.shared().url, rabbitmq: RabbitMQServer())
    try world.publish([device(1, ",\"user\":\"" + String(repeating: "x", count: 70_000) + "\""), device(2)])
    try world.rabbitmq.rabbitmqctl(["set_vm_memory_high_watermark", "absolute", "1MB"])
    let consumer = try world.consumer()
    wait("the sound one is stored") { consumer.counters.results[.init(kind: "device", result: "added")] == 1 }
    _ = ChildProcess.poll(timeoutMilliseconds: 3_000, everyMilliseconds: 20) { invalid(consumer) > 0 ? true : nil }
    #expect(invalid(consumer) == 0 && consumer.counters.inFlight == 1, "\(consumer.counters.results)")
    try world.rabbitmq.rabbitmqctl(["set_vm_memory_high_watermark", "0.6"])
    wait("the queue is empty") { consumer.isExhausted }
    #expect(invalid(consumer) == 1, "\(consumer.counters.results)")
    end(consumer)
    #expect(try world.dead().count == 1)
  }

  /// One app's bad registrations, more than the consumer takes at a time, hold up nobody else's while their dead letters are refused.
  @Test func deadLettersThatAreRefused_holdUpNoOtherApp() throws {
    let world = try ConsumerWorld(redis: RedisServer.shared().url)
    try world.fillDead()
    let (count, maximum) = (60, 16)
    let oversized = device(1, ",\"user\":\"" + String(repeating: "x", count: 70_000) + "\"")
    try world.publish((0..<count).map { $0 % 3 == 0 ? oversized : "{\"x\":\($0)}" } + [device(2)])
    let consumer = try world.consumer { $0.registrationsMaximum = UInt16(maximum) }
    wait("the sound one is stored") { consumer.counters.results[.init(kind: "device", result: "added")] == 1 }
    #expect(invalid(consumer) == 0 && consumer.counters.putOff > 0)
    try world.liftLimit()
    wait("the queues are empty") { consumer.isExhausted }
    #expect(invalid(consumer) == UInt64(count), "\(consumer.counters.results)")
    end(consumer)
    let letters = try world.dead()
    #expect(letters.count { $0.headers["x-herald-reason"] == "invalid" } == count)
  }
}
