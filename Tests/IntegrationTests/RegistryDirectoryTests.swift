import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// How a lane finds the devices of a page, in a real Redis.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct RegistryDirectoryTests {
  /// Nothing else tells other copies of the page, before the lane's report is read.
  @Test func whoIsSkippedIsSettledAtOnce() throws {
    let prefix = "directory-\(UInt32.random(in: 0 ... .max)):"
    let url = try RedisServer.shared().url
    let registry = try AudienceRegistry(url: url, prefix: prefix)
    try registry.register(0..<2, hasToken: { $0 != 1 })
    _ = try registry.wait {
      registry.store.open(
        registry.job("all"), ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(),
        body: [], then: $0)
    }
    _ = try registry.wait {
      registry.store.fix(
        registry.job("all"), step: 0, pages: [PageOrdinals([0, 1], epoch: 0)], counted: 0, next: nil, ordinals: 2,
        then: $0)
    }
    let directory = RegistryDirectory(
      loop: registry.loop, configuration: try RedisConfiguration(url: url), tls: nil, prefix: prefix, seed: 2)
    defer { directory.close() }
    #expect(try kinds(directory, registry, .leftOut) == ["token", "skipped"])
    let page = PageSettlement(
      parentID: Array("all".utf8), scope: registry.scope, page: 0, position: 0, ends: [],
      ordinals: Array("0:0,1".utf8))
    // Redis may not have the script yet: then its text is sent after its answer.
    var ends: [UInt8]?
    for _ in 0..<2_000 where ends != Array("-s".utf8) {
      directory.maintain(now: registry.loop.now)
      ends = try registry.wait { registry.store.state(of: page, 2, in: registry.job("all"), then: $0) }.ends
    }
    #expect(ends == Array("-s".utf8))
    try registry.register(1..<2)
    #expect(try kinds(directory, registry, .leftOut) == ["token", "settled"])
    #expect(try kinds(directory, registry, .asked) == ["token", "superseded"])
    #expect(try kinds(directory, registry, .found) == ["token", "token"])
  }

  /// A page and a broadcast of it: what is asked for names its standing, and of a cancelled job nothing is sent.
  @Test func standingOfItsJob_isTold() throws {
    let prefix = "standing-\(UInt32.random(in: 0 ... .max)):"
    let url = try RedisServer.shared().url
    let registry = try AudienceRegistry(url: url, prefix: prefix)
    try registry.register(0..<2)
    _ = try registry.wait {
      registry.store.open(
        registry.job("all"), ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(),
        body: [], then: $0)
    }
    let directory = RegistryDirectory(
      loop: registry.loop, configuration: try RedisConfiguration(url: url), tls: nil, prefix: prefix, seed: 2)
    defer { directory.close() }
    func page(mayPause: Bool = true) throws -> PageResolution {
      try resolution(directory, registry, .leftOut, mayPause: mayPause)
    }
    func broadcast(mayPause: Bool = true) throws -> PageResolution {
      try resolution(directory, registry, .leftOut, Self.broadcast, mayPause: mayPause)
    }
    func command(_ command: ExpansionState.Command) throws {
      _ = try #require(try registry.wait { registry.store.control(command, registry.job("all"), then: $0) })
    }
    #expect(try page().standing == .running && broadcast().standing == .running)
    try command(.pause)
    #expect(try page().standing == .paused && broadcast().standing == .paused)
    #expect(try page(mayPause: false).standing == .running && broadcast(mayPause: false).standing == .running)
    #expect(try !broadcast().isOvertaken)
    try command(.cancel)
    #expect(try page().standing == .cancelled && page().entries == [.cancelled, .cancelled])
    #expect(try broadcast().standing == .cancelled && broadcast().isOvertaken)
  }

  /// Whose state a late token's page has, that job's: while it is paused, the page waits, and of a cancelled one nothing is sent, unless it
  /// stays its activity's newest.
  @Test func aLateTokensPageAsksForItsJob() throws {
    let prefix = "late-\(UInt32.random(in: 0 ... .max)):"
    let url = try RedisServer.shared().url
    let registry = try AudienceRegistry(url: url, prefix: prefix)
    try registry.register(0..<1)
    let ride = try #require(ActivityID("ride"))
    let activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: prefix)
    let payload = try ActivityPayload(Array(#"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#.utf8))
    _ = try registry.wait {
      activities.register(
        ride, in: registry.scope, ordinal: 0, token: [0x51], at: registry.loop.now.unixMilliseconds, then: $0)
    }
    func revise() throws -> ActivityState.Revised {
      try registry.wait {
        activities.revise(ride, in: registry.scope, payload: payload, job: 1, edit: { _, _ in [1] }, then: $0)
      }.answer
    }
    var answer = try revise()
    if case .waits(_, let milliseconds) = answer {
      // The second after that of its registration.
      let due = registry.loop.now.unixMilliseconds + milliseconds
      while registry.loop.now.unixMilliseconds < due { registry.turn() }
      answer = try revise()
    }
    guard case .begun(let revision) = answer else { throw TestFailure("it is due") }
    let late = Self.late.replacing("TIMESTAMP", with: "\(revision.timestamp)")
    _ = try registry.wait {
      registry.store.open(
        registry.job("all"), ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(),
        body: [], then: $0)
    }
    let directory = RegistryDirectory(
      loop: registry.loop, configuration: try RedisConfiguration(url: url), tls: nil, prefix: prefix, seed: 2)
    defer { directory.close() }
    func page(mayPause: Bool = true) throws -> PageResolution {
      try resolution(directory, registry, .leftOut, late, mayPause: mayPause)
    }
    func isSent(_ resolution: PageResolution) -> Bool {
      if case .token = resolution.entries.first { resolution.entries.count == 1 } else { false }
    }
    func command(_ command: ExpansionState.Command) throws {
      _ = try #require(try registry.wait { registry.store.control(command, registry.job("all"), then: $0) })
    }
    try command(.pause)
    #expect(try page().standing == .paused)
    #expect(try isSent(page(mayPause: false)), "it ends, whatever the pause")
    try command(.resume)
    #expect(try page().standing == .running && isSent(page()))
    try command(.cancel)
    #expect(try page().standing == .cancelled && page().entries == [.cancelled])
    let _: Void = try registry.wait { registry.store.keep(registry.job("all"), as: .state, then: $0) }
    #expect(try page().standing == .running && isSent(page()))
  }

  private static let late = #"""
    {"parent_id":"all","id":"all/late/d-0","app":"com.example.app","push_type":"liveactivity","activity":"ride",\#
    "revision":1,"to":{"page":4294967295,"ordinals":[0],"late":"d-0"},\#
    "payload":{"aps":{"timestamp":TIMESTAMP,"event":"update","content-state":{}}}}
    """#
  private static let page = #"""
    {"parent_id":"all","id":"all/0","app":"com.example.app","push_type":"alert","to":{"page":0,"ordinals":[0,1]},\#
    "payload":{"aps":{"alert":"x"}}}
    """#
  private static let broadcast = #"""
    {"parent_id":"all","id":"all/channel","app":"com.example.app","push_type":"liveactivity","activity":"ride",\#
    "revision":1,"to":{"channel":"dHN0LXNyY2gtY2hubA=="},\#
    "payload":{"aps":{"timestamp":1,"event":"update","content-state":{}}}}
    """#

  private func kinds(
    _ directory: RegistryDirectory, _ registry: AudienceRegistry, _ settled: SettledDevices
  ) throws -> [String] {
    try resolution(directory, registry, settled).entries.map { entry in
      switch entry {
      case .token: "token"
      case .superseded: "superseded"
      case .skipped: "skipped"
      case .forgotten: "forgotten"
      case .cancelled: "cancelled"
      case .settled: "settled"
      }
    }
  }

  private func resolution(
    _ directory: RegistryDirectory, _ registry: AudienceRegistry, _ settled: SettledDevices, _ body: String = page,
    mayPause: Bool = true
  ) throws -> PageResolution {
    var job = PushJob()
    job.bytes = Array(body.utf8)
    job.bodyCount = job.bytes.count
    let none: [UInt8] = []
    var parser = JobParser()
    try parser.parse(into: &job, fallbackID: none.span)
    let loop = registry.loop
    directory.find(
      job, isOver: false, mayPause: mayPause, settled: settled, apnsID: nil, ticket: Ticket(index: 0, generation: 0),
      now: loop.now)
    for _ in 0..<2_000 {
      loop.poll(maximumWaitMilliseconds: 5)
      directory.maintain(now: loop.now)
      loop.flush()
      guard let answer = directory.nextAnswer(now: loop.now) else { continue }
      return try answer.found.get()
    }
    throw TestFailure("no answer")
  }

  /// An audience's ordinals are read before the fingerprints of their devices. If Redis lost its latest writes in between, they are others'.
  @Test func fingerprintsOfARewoundRedis_areNotTaken() throws {
    let redis = try RedisServer()
    defer { redis.stop() }
    let registry = try AudienceRegistry(url: redis.url, prefix: "rewound:")
    try registry.register(0..<3)
    func fingerprints(since generation: UInt64) throws -> [UInt32] {
      try registry.wait {
        registry.devices.fingerprints(of: [0, 1, 2, 3], since: generation, in: registry.scope, then: $0)
      }
    }
    let before = registry.devices.generation
    let ordinals = try registry.wait {
      registry.devices.members(of: .everyone, limit: 9, in: registry.scope, then: $0)
    }
    #expect(ordinals == [0, 1, 2])
    let known = try fingerprints(since: before)
    #expect(Set(known).count == 4 && known.last == .max, "nobody's, and not of whoever comes next")
    redis.stop()
    try redis.start()
    try redis.cli(["FLUSHALL"])
    while registry.devices.generation == before { registry.turn() }
    try registry.register(10..<13)
    #expect(throws: DeviceRegistryFailure.self) { try fingerprints(since: before) }
    #expect(try Set(fingerprints(since: registry.devices.generation).dropLast()).isDisjoint(with: known))
  }
}
