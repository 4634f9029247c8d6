import Logging
import PushCore
import PushIO
import PushLane
import PushStores
import Testing
import WorkerSimulation

/// What one app puts in front of another's registration or job for an audience: that one is done within 2 s and 0.2 ms for each of them.
@Suite(.timeLimit(.minutes(5))) struct ConsumerShareTests {
  private static let big = "com.example.big"
  private static let small = "com.example.small"

  /// The shipped consumers of registrations and audiences, beside a RabbitMQ and a Redis, or a cluster.
  private final class Bench {
    let network = SimulatedNetwork(seed: 1)
    let rabbitmq = SimulatedRabbitMQ(seed: 1)
    let topology = Topology()
    private(set) var redis: [SimulatedRedis] = []
    private var works: [(work: any LoopWork, kernel: SimulatedKernel, loop: EventLoop)] = []
    /// By the job's id: when its first page was published, and when its outcome was; milliseconds.
    private(set) var pages: [String: Int64] = [:]
    private(set) var outcomes: [String: Int64] = [:]
    /// By the job's id: the queues of audiences that had it.
    private(set) var queues: [String: [String]] = [:]
    /// By app: registrations that were acknowledged, and those that became dead letters.
    private(set) var registered: [String: Int] = [:]
    private(set) var deadCount = 0
    private var published = 0

    /// - Parameters:
    ///   - nodes: of a cluster; 1: a single Redis.
    ///   - adjust: the settings for audiences.
    init(nodes: Int = 1, _ adjust: (inout ExpansionSettings) -> Void = { _ in }) throws {
      let settings = (0..<UInt16(nodes)).map { node in
        var settings = SimulatedRedisSettings()
        settings.host = "127.0.0.1"
        settings.port += node
        return settings
      }
      redis =
        nodes == 1
        ? [SimulatedRedis(settings: settings[0], seed: 1)]
        : SimulatedRedisCluster(settings: settings, masterCount: nodes, seed: 1).nodes
      for node in redis { network.listen(node.settings.port, node) }
      network.listen(5672, rabbitmq)
      rabbitmq.observer = { [unowned self] in observe($0) }
      let url =
        (nodes == 1 ? "redis://" : "redis-cluster://")
        + settings.map { "127.0.0.1:\($0.port)" }.joined(separator: ",")
      let configuration = try RedisConfiguration(url: url)
      func broker(_ name: String) throws -> RabbitMQSettings {
        RabbitMQSettings(
          addresses: [try AMQPAddress("amqp://guest:guest@127.0.0.1:5672/")], tls: nil, topology: topology,
          laneName: name, prefetch: 2, randomSeed: 1)
      }
      let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
      var expansions = ExpansionSettings(
        rabbitmq: try broker("expansions"), redis: configuration, redisTLS: nil, prefix: "push:", workerName: "test")
      expansions.activities.channelAbove = 0
      adjust(&expansions)
      let audiences = ExpansionConsumer(expansions, logger: logger)
      begin { audiences.work(on: $0, seed: 1) { _, _ in } }
      let registrations = RegistrationConsumer(
        RegistrationConsumerSettings(
          rabbitmq: try broker("registrations"), redis: configuration, redisTLS: nil, prefix: "push:"),
        logger: logger)
      begin { registrations.work(on: $0, seed: 2) { _, _ in } }
      play(milliseconds: 1_000)
    }

    deinit { for (_, kernel, _) in works { kernel.kill() } }

    private func begin(_ make: (EventLoop) -> any LoopWork) {
      let kernel = SimulatedKernel(network, wallClockMilliseconds: 1_796_000_000_000)
      let loop = EventLoop(kernel: kernel)
      works.append((make(loop), kernel, loop))
    }

    var milliseconds: Int64 { network.now / 1_000_000 }

    private func observe(_ event: SimulatedRabbitMQEvent) {
      if case .acknowledged(topology.registrationsQueue, let message) = event, let app = message.text(of: "app") {
        registered[app, default: 0] += 1
      }
      if case .stored(topology.deadQueue, _) = event { deadCount += 1 }
      guard case .stored(let queue, let message) = event, let id = message.text(of: "job_id") ?? message.text(of: "id")
      else { return }
      if queue == topology.resultsLogQueue, outcomes[id] == nil { outcomes[id] = milliseconds }
      if (topology.expansionQueues(.transactional) + topology.expansionQueues(.bulk)).contains(queue) {
        queues[id, default: []].append(queue)
      }
      let parent = id.split(separator: "/").first.map(String.init) ?? id
      if queue == topology.jobsQueue(.transactional), pages[parent] == nil { pages[parent] = milliseconds }
    }

    /// - Parameter jobClass: in the message's header, as lanes write it; nil: it has none.
    func publish(_ body: String, to queue: String, class jobClass: String? = nil) {
      published += 1
      var properties = RabbitProperties()
      properties.messageID = Array("m-\(published)".utf8)
      properties.timestamp = UInt64(1_796_000_000 + milliseconds / 1_000)
      if let jobClass {
        var headers = RabbitTable()
        headers["x-herald-class"] = .text(Array(jobClass.utf8))
        properties.headers = headers
      }
      rabbitmq.publish(
        exchange: "", routingKey: queue, properties: properties, body: Array(body.utf8), now: network.now)
      network.act(rabbitmq)
    }

    func register(_ device: String, of app: String) {
      publish(
        """
        {"version":1,"kind":"device","at":\(1_796_000_000_000 + milliseconds),"app":"\(app)","device":"\(device)",\
        "user":"u-\(device)","token":"\(String(repeating: "ab", count: 32))",\
        "push_to_start":{"*":"\(String(repeating: "cd", count: 32))"},"os_version":"18.1"}
        """, to: topology.registrationsQueue)
    }

    /// A job for one device.
    func alert(_ id: String, to device: String, of app: String, in queue: JobClass = .transactional) {
      publish(
        """
        {"version":1,"id":"\(id)","app":"\(app)","push_type":"alert","to":{"devices":["\(device)"]},\
        "payload":{"aps":{"alert":"hello"}}}
        """, to: topology.expansionsQueue(queue))
    }

    /// The start of an activity, which waits for its channel.
    func start(
      _ id: String, to device: String, of app: String, in queue: JobClass = .transactional,
      class jobClass: String? = nil
    ) {
      publish(
        """
        {"version":1,"id":"\(id)","app":"\(app)","push_type":"liveactivity","activity":"a-\(id)",\
        "to":{"devices":["\(device)"]},"payload":{"aps":{"event":"start","attributes-type":"Ride","attributes":{},\
        "content-state":{},"alert":{"title":"t","body":"b"}}}}
        """, to: topology.expansionsQueue(queue), class: jobClass)
    }

    /// Each loop's turns are a millisecond apart.
    func play(milliseconds: Int64, until isDone: () -> Bool = { false }) {
      let end = network.now + milliseconds * 1_000_000
      while network.now < end, !isDone() {
        for (work, _, _) in works { _ = work.turn() }
        network.advance(to: network.now + 1_000_000)
      }
    }

    /// Until no message is in these queues.
    func playUntilEmpty(_ queues: [String]) {
      play(milliseconds: 600_000) { queues.allSatisfy { rabbitmq.messageCount(in: $0) == 0 } }
    }
  }

  private func limit(_ count: Int) -> Int64 { 2_000 + Int64(count) / 5 }

  /// Nobody makes the channels that they wait for.
  @Test func startsThatWaitForAChannelHoldUpNoOtherApp() throws {
    let bench = try Bench()
    bench.register("d", of: Self.big)
    bench.register("d", of: Self.small)
    bench.playUntilEmpty([bench.topology.registrationsQueue])
    let count = 2_000
    for number in 0..<count { bench.start("start-\(number)", to: "d", of: Self.big) }
    let begun = bench.milliseconds
    for number in 0..<10 { bench.alert("alert-\(number)", to: "d", of: Self.small) }
    bench.play(milliseconds: limit(count)) { (0..<10).allSatisfy { bench.pages["alert-\($0)"] != nil } }
    let late = (0..<10).filter { bench.pages["alert-\($0)"] == nil }
    #expect(late.isEmpty, "not found after \(bench.milliseconds - begun) ms")
    // Also those that come while the others come back again and again.
    for number in 10..<30 {
      let published = bench.milliseconds
      bench.alert("alert-\(number)", to: "d", of: Self.small)
      bench.play(milliseconds: limit(count)) { bench.pages["alert-\(number)"] != nil }
      #expect(bench.pages["alert-\(number)"] != nil, "after \(bench.milliseconds - published) ms")
      bench.play(milliseconds: 200)
    }
    // And the starts go on without channels.
    bench.playUntilEmpty(bench.topology.expansionQueues(.transactional))
    #expect((0..<count).count { bench.pages["start-\($0)"] != nil } == count)
  }

  /// 64 messages of any app at once: 2 s for each 64.
  @Test func withoutTheRuleTheyWait() throws {
    let bench = try Bench { settings in
      settings.messagesMaximum = 64
      settings.shares.progressMaximum = 1_000
    }
    bench.register("d", of: Self.big)
    bench.register("d", of: Self.small)
    bench.playUntilEmpty([bench.topology.registrationsQueue])
    for number in 0..<2_000 { bench.start("start-\(number)", to: "d", of: Self.big) }
    bench.alert("alert", to: "d", of: Self.small)
    bench.play(milliseconds: 30_000)
    #expect(bench.pages["alert"] == nil)
  }

  @Test func aBacklogOfJobsIsDoneAtOnce() throws {
    let bench = try Bench()
    let count = 5_000
    for number in 0..<count { bench.alert("many-\(number)", to: "nobody", of: Self.big) }
    bench.alert("last", to: "nobody", of: Self.small)
    bench.play(milliseconds: limit(count)) { bench.outcomes["last"] != nil }
    #expect(bench.outcomes["last"] != nil, "after \(limit(count)) ms")
    bench.playUntilEmpty(bench.topology.expansionQueues(.transactional))
    #expect(bench.outcomes.count == count + 1)
  }

  /// Ten times what a worker has of them at once, of the same app.
  @Test func aBulkBacklogHoldsUpNoTransactionalJob() throws {
    let bench = try Bench()
    bench.register("d", of: Self.big)
    bench.playUntilEmpty([bench.topology.registrationsQueue])
    let count = 5_000
    for number in 0..<count { bench.alert("bulk-\(number)", to: "nobody", of: Self.big, in: .bulk) }
    for number in 0..<10 {
      let published = bench.milliseconds
      bench.alert("urgent-\(number)", to: "d", of: Self.big)
      bench.play(milliseconds: 300) { bench.pages["urgent-\(number)"] != nil }
      #expect(bench.pages["urgent-\(number)"] != nil, "after \(bench.milliseconds - published) ms")
    }
    #expect(bench.outcomes.count < count / 2, "the backlog was in front of them")
    bench.playUntilEmpty(bench.topology.expansionQueues(.bulk))
    #expect(bench.outcomes.count == count)
  }

  /// What waits, comes back and gets a revision. A worker of the version before puts bulk jobs into the transactional queue.
  @Test func aJobStaysInTheQueuesOfItsClass() throws {
    let bench = try Bench()
    bench.register("d", of: Self.big)
    bench.playUntilEmpty([bench.topology.registrationsQueue])
    bench.start("bulk", to: "d", of: Self.big, in: .bulk, class: "bulk")
    bench.start("old", to: "d", of: Self.big, class: "bulk")
    bench.start("urgent", to: "d", of: Self.big, class: "transactional")
    let (transactional, bulk) = (bench.topology.expansionQueues(.transactional), bench.topology.expansionQueues(.bulk))
    bench.playUntilEmpty(transactional + bulk)
    let (bulks, olds) = (bench.queues["bulk"] ?? [], bench.queues["old"] ?? [])
    let urgents = bench.queues["urgent"] ?? []
    #expect(bulks.count > 2 && bulks.allSatisfy(bulk.contains), "\(bulks)")
    #expect(olds.first == transactional[0] && olds.count > 2 && olds.dropFirst().allSatisfy(bulk.contains), "\(olds)")
    #expect(urgents.count > 2 && urgents.allSatisfy(transactional.contains), "\(urgents)")
  }

  @Test func aBacklogOfRegistrationsIsDoneAtOnce() throws {
    let bench = try Bench()
    let count = 5_000
    for number in 0..<count { bench.register("d-\(number)", of: Self.big) }
    bench.register("last", of: Self.small)
    bench.play(milliseconds: limit(count)) { bench.rabbitmq.messageCount(in: bench.topology.registrationsQueue) == 0 }
    #expect(bench.rabbitmq.messageCount(in: bench.topology.registrationsQueue) == 0)
    bench.alert("to-last", to: "last", of: Self.small)
    bench.play(milliseconds: 1_000) { bench.pages["to-last"] != nil }
    #expect(bench.pages["to-last"] != nil)
  }

  /// A node of the cluster answers nothing; it has the devices of one app.
  @Test func registrationsThatANodeDoesNotTakeHoldUpNoOtherApp() throws {
    let bench = try Bench(nodes: 3)
    func node(_ app: String) throws -> Int {
      let scope = try #require(AppScope(app: app, environment: .production))
      let tag = RegistryKeys(prefix: "push:", scope: scope).tag
      return RedisSlot.of(tag.utf8.span) * 3 / 16_384
    }
    let down = try node(Self.big)
    let small = try #require(try (0..<20).map { "com.example.small\($0)" }.first { try node($0) != down })
    bench.redis[down].stall()
    let count = 3_000
    for number in 0..<count { bench.register("d-\(number)", of: Self.big) }
    for round in 0..<20 {
      let published = bench.milliseconds
      bench.register("d-\(round)", of: small)
      bench.play(milliseconds: limit(count)) { bench.registered[small] == round + 1 }
      #expect(bench.registered[small] == round + 1, "after \(bench.milliseconds - published) ms")
      bench.play(milliseconds: 500)
    }
    bench.redis[down].resume(now: bench.network.now)
    bench.network.act(bench.redis[down])
    bench.playUntilEmpty(bench.topology.registrationQueues)
    #expect(bench.registered[Self.big] ?? 0 >= count && bench.deadCount == 0)
  }
}

extension RabbitMessage {
  /// A member of its body.
  fileprivate func text(of name: String) -> String? {
    let text = String(decoding: body, as: UTF8.self)
    guard let range = text.firstRange(of: "\"\(name)\":\"") else { return nil }
    return text[range.upperBound...].split(separator: "\"", maxSplits: 1).first.map(String.init)
  }
}
