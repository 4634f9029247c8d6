import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// An activity over a real Redis and a real RabbitMQ: jobs get revisions, pages find their devices, late tokens get their push.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ActivityWayTests {
  private static let start = #"""
    {"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{"eta":9},"alert":{"title":"t","body":"b"}}}
    """#
  private static let update = #"{"aps":{"event":"update","content-state":{"eta":5}}}"#

  private func job(_ id: String, to: String, payload: String, _ more: String = "") -> String {
    #"{"id":"\#(id)","app":"com.example.app","environment":"sandbox","push_type":"liveactivity","to":\#(to),"payload":\#(payload)\#(more)}"#
  }

  /// The id of a late push is longer than AMQP takes: it is cut between two characters.
  @Test func lateMessagesID_isWholeCharacters() throws {
    let world = try ActivityWay(idAttribute: "herald.id")
    defer { world.close() }
    let device = String(repeating: "é", count: 64)
    try world.register("d1", startToken: "aa01aa01")
    try world.register(device, startToken: nil)
    let id = String(repeating: "u", count: 128)
    _ = try world.publishedBody(
      job("s1", to: #"{"devices":["d1"]}"#, payload: Self.start, #","activity":"ride-17""#))
    _ = try world.publishedBody(job(id, to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.token(device, "cc02cc02") == .changed)
    let late = try world.queued()
    #expect(late.map(\.id) == ["\(id)/late/\(String(repeating: "é", count: 60))"])
    #expect(try world.resolve(late.first?.text ?? "") == [device: "cc02cc02"])
  }

  @Test func fromStartToEnd() throws {
    let world = try ActivityWay(idAttribute: "herald.id")
    defer { world.close() }
    for (device, start) in [("d1", "aa01aa01"), ("d2", "aa02aa02"), ("d3", nil)] as [(String, String?)] {
      try world.register(device, startToken: start)
    }
    let startJob = job("s1", to: #"{"devices":["d1","d2","d3"]}"#, payload: Self.start, #","activity":"ride-17""#)
    let started = try world.publishedBody(startJob)
    #expect(started.contains(#""attributes":{"herald":{"id":"ride-17"}}"#) && started.contains(#""revision":1"#))
    #expect(try world.page(started, 0) == ["d1": "aa01aa01", "d2": "aa02aa02"], "d3 has no start token")
    #expect(try world.page(started, 0) == ["d1": "aa01aa01", "d2": "aa02aa02"], "the page came again")
    // Another job for all devices: none is started twice.
    let more = job("s2", to: #"{"devices":["d1","d2","d3"]}"#, payload: Self.start, #","activity":"ride-17""#)
    #expect(try world.page(world.publishedBody(more), 0).isEmpty)
    let other = Self.start.replacing("9", with: "8")
    let refusal = try world.take(job("s3", to: #"{"users":["u"]}"#, payload: other, #","activity":"ride-17""#))
    guard case .refused(let error) = refusal else { throw TestFailure("\(refusal)") }
    #expect(error.field == "activity" && error.rule.contains("was started with another payload"))

    // One registers in time, one late.
    #expect(try world.token("d1", "cc01cc01") == .changed)
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(updated.contains(#""priority":5"#) && updated.contains(#""activity":"ride-17""#))
    #expect(try world.page(updated, 0, live: true) == ["d1": "cc01cc01"])
    #expect(try world.queued().isEmpty, "no token was late")
    #expect(try world.token("d2", "cc02cc02") == .changed)
    let late = try world.queued()
    try #require(late.count == 1)
    #expect(late[0].id == "u1/late/d2" && late[0].text.contains(#""eta":5"#))
    #expect(try world.resolve(late[0].text) == ["d2": "cc02cc02"])
    #expect(try world.token("d2", "cc02cc02") == .changed, "the app repeats the token")
    #expect(try world.queued().isEmpty)

    // The end shows the last state; d1 is gone.
    try world.gone(updated, device: "d1", "cc01cc01")
    let ended = try world.publishedBody(
      job("e1", to: #"{"activity":"ride-17"}"#, payload: #"{"aps":{"event":"end"}}"#))
    #expect(ended.contains(#""content-state":{"eta":5}"#) && ended.contains(#""priority":10"#))
    #expect(try world.page(ended, 0, live: true) == ["d2": "cc02cc02"])
    guard case .refused(let over) = try world.take(job("u2", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    else {
      throw TestFailure("an ended activity takes no update")
    }
    #expect(over.detail.hasPrefix("to.activity: has ended"))
    // A token that is late after the end gets the end.
    #expect(try world.token("d3", "cc03cc03") == .changed)
    let last = try world.queued()
    #expect(last.map(\.id) == ["e1/late/d3"])
    #expect(try world.resolve(last.first?.text ?? "") == ["d3": "cc03cc03"])
  }

  /// Each page for a late token is for that one: where the device has another by then, the claim is left to that one's page.
  @Test func aLatePageIsForItsTokenOnly() throws {
    let world = try ActivityWay()
    defer { world.close() }
    try world.register("d1", startToken: "aa01aa01")
    _ = try world.publishedBody(job("s1", to: #"{"devices":["d1"]}"#, payload: Self.start, #","activity":"ride-17""#))
    _ = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.token("d1", "cc01cc01") == .changed)
    let first = try world.queued()
    #expect(try world.token("d1", "cc02cc02") == .changed)
    let second = try world.queued()
    try #require(first.count == 1 && second.count == 1)
    var page = PushJob()
    page.bytes = Array(first[0].text.utf8)
    page.bodyCount = page.bytes.count
    var parser = JobParser()
    let (id, none): ([UInt8], [UInt8]) = (Array("u1/late/d1".utf8), [])
    try parser.parse(into: &page, fallbackID: none.span)
    let revision = page.revision
    func resolve(_ token: String, revision: UInt32) throws -> [String: String] {
      let token = Array(token.utf8)
      let apnsID = UUIDValue.apnsID(page: id.span, lateToken: token.span, revision: revision)
      return try world.resolve(first[0].text, apnsID: apnsID)
    }
    #expect(try resolve("cc01cc01", revision: revision).isEmpty)
    #expect(try resolve("cc02cc02", revision: revision + 1).isEmpty, "a job that came twice may have two")
    // The other page was not published, and the registration comes again.
    #expect(try world.token("d1", "cc02cc02") == .changed)
    #expect(try world.queued().count == 1)
    #expect(try resolve("cc02cc02", revision: revision) == ["d1": "cc02cc02"])
    // A copy of a page that an older worker published: from its ordinal.
    #expect(try world.resolve(first[0].text, apnsID: UUIDValue.apnsID(for: page, target: 0)) == ["d1": "cc02cc02"])
  }

  /// However a device's tokens change, it is started once or alerted once.
  @Test func whoCannotShowItIsAlerted() throws {
    let world = try ActivityWay()
    defer { world.close() }
    try world.register("d1", startToken: nil, alertToken: "aa01aa01")
    try world.register("d2", startToken: "bb02bb02", alertToken: "aa02aa02")
    try world.register("d3", startToken: nil)
    let more = #","activity":"ride-17","fallback":{"title":"T","body":"B"}"#
    let first = try world.publishedBody(job("s1", to: #"{"devices":["d1"]}"#, payload: Self.start, more))
    #expect(try world.page(first, 0) == ["d2": "bb02bb02"])
    let alerts = try world.fallbackPage(first, 1)
    #expect(try world.resolve(alerts) == ["d1": "aa01aa01"], "d2 was started, and d3 has no token at all")
    #expect(try world.resolve(alerts) == ["d1": "aa01aa01"], "the page came again")
    try world.register("d1", startToken: "bb01bb01")
    #expect(try world.page(first, 2) == ["d2": "bb02bb02"], "d1 was alerted")
    #expect(try world.resolve(alerts) == ["d1": "aa01aa01"], "its alert is still in flight")
    let second = try world.publishedBody(job("s2", to: #"{"devices":["d1"]}"#, payload: Self.start, more))
    #expect(try world.page(second, 0).isEmpty)
    #expect(try world.resolve(world.fallbackPage(second, 1)).isEmpty)

    // Its alert surely did not come: now the device can be started.
    try world.tokenGone(alerts, ordinal: 0)
    #expect(try world.resolve(alerts).isEmpty)
    #expect(try world.page(second, 0) == ["d1": "bb01bb01"])
  }

  @Test func anAppMayStartItItself() throws {
    let world = try ActivityWay()
    defer { world.close() }
    #expect(try world.token("new", "dd01dd01") == .changed, "a device may be known by its activity first")
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(updated, 0, live: true) == ["new": "dd01dd01"])
    #expect(try world.token("new", "", at: 5) == .changed)
    world.now += 2_000
    let next = try world.publishedBody(job("u2", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(next, 0, live: true).isEmpty)
    #expect(try world.token("new", "dd01dd01", at: world.lastAt - 1) == .older)
    guard case .refused(let error) = try world.take(job("u9", to: #"{"activity":"no"}"#, payload: Self.update)) else {
      throw TestFailure("an unknown activity takes no update")
    }
    #expect(error.detail.hasPrefix("to.activity: is not known"))
  }

  @Test func updatesOfOneSecondBecomeOne() throws {
    let world = try ActivityWay()
    defer { world.close() }
    _ = try world.token("d", "dd01dd01")
    _ = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    guard case .waits(let second, _) = try world.take(job("u2", to: #"{"activity":"ride-17"}"#, payload: Self.update)),
      case .waits(let third, let milliseconds) = try world.take(
        job("u3", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    else { throw TestFailure("an update within the same second waits") }
    world.now += milliseconds
    guard case .superseded(second) = try world.begin("ride-17", second),
      case .publish(let body) = try world.begin("ride-17", third)
    else { throw TestFailure("the newer one goes out") }
    #expect(try world.page(String(decoding: body, as: UTF8.self), 0, live: true) == ["d": "dd01dd01"])
  }

  /// Its ordinals are other devices' now. A push to those must not count as sent.
  @Test(arguments: [
    #""id":"old/0","to":{"page":0,"ordinals":[0],"epoch":1}"#,
    #""id":"old/late/x","to":{"page":4294967295,"ordinals":[0],"late":"x"}"#,
  ])
  func aPageFromBeforeRedisWasEmptiedMarksNobody(_ fields: String) throws {
    let world = try ActivityWay()
    defer { world.close() }
    _ = try world.token("d", "dd01dd01")
    let old =
      #"{"parent_id":"old",\#(fields),"app":"com.example.app","environment":"sandbox","push_type":"liveactivity","activity":"ride-17","revision":9,"payload":\#(Self.update)}"#
    #expect(try world.resolve(old).isEmpty)
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(updated, 0, live: true) == ["d": "dd01dd01"])
  }

  /// The worker that stored a late token dies before its push is confirmed: the registration is redelivered, and the push is sent.
  @Test func aDeadRegistrarLosesNoPush() throws {
    let world = try ActivityWay()
    defer { world.close() }
    _ = try world.token("d0", "dd01dd01")
    _ = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    var died = 0
    for turns in 0..<12 {
      if try world.tokenOfADyingRegistrar("late-\(turns)", "ee0\(turns % 10)ee01", turns: turns) { continue }
      died += 1
      _ = try world.token("late-\(turns)", "ee0\(turns % 10)ee01", at: world.lastAt)
    }
    #expect(died > 3)
    let ids = Set(try world.queued().map(\.id))
    #expect(ids == Set((0..<12).map { "u1/late/late-\($0)" }))
  }
}

/// Registers update tokens, with its own connections.
private final class Tokens {
  let registrar: ActivityRegistrar
  private let redis: RedisClient
  private let devices: DeviceRegistry
  private let publisher: ConfirmedPublisher

  init(
    loop: EventLoop, rabbitmq: RabbitMQSettings, redis configuration: RedisConfiguration, prefix: String, seed: UInt64
  ) {
    redis = RedisClient(loop: loop, configuration: configuration, tls: nil, seed: seed)
    devices = DeviceRegistry(loop: loop, redis: redis, prefix: prefix, seed: 1)
    publisher = ConfirmedPublisher(loop: loop, settings: rabbitmq) { _, _ in }
    registrar = ActivityRegistrar(
      devices: devices, activities: ActivityRegistry(loop: loop, redis: redis, prefix: prefix), publisher: publisher,
      topology: rabbitmq.topology)
  }

  func turn() {
    redis.turn()
    devices.turn()
    publisher.turn()
  }

  func close() {
    publisher.close()
    redis.close()
  }
}

/// One app's activities on one loop.
private final class ActivityWay {
  let loop: EventLoop
  let scope: AppScope
  var now: Int64
  private(set) var lastAt: Int64 = 0
  private let prefix = "way-\(UInt32.random(in: 0 ... .max))"
  private let redis: RedisClient
  private let devices: DeviceRegistry
  private let activities: ActivityRegistry
  private let taker: ActivityTaker
  private let pages: ActivityPages
  private let tokens: Tokens
  private let admin: AMQPAdmin
  private let rabbitmq: RabbitMQSettings
  private var parser = JobParser()

  init(idAttribute: String? = nil) throws {
    loop = try EventLoop()
    now = loop.now.unixMilliseconds
    guard let scope = AppScope(app: "com.example.app", environment: .sandbox) else { throw TestFailure("no scope") }
    self.scope = scope
    let configuration = try RedisConfiguration(url: RedisServer.shared().url)
    let address = try AMQPAddress(RabbitMQServer.shared().url)
    rabbitmq = RabbitMQSettings(
      addresses: [address], tls: nil,
      topology: Topology(prefix: prefix, retryDelaysSeconds: [1], resultsLog: nil), laneName: "way", prefetch: 10,
      randomSeed: 1)
    redis = RedisClient(loop: loop, configuration: configuration, tls: nil, seed: 1)
    devices = DeviceRegistry(loop: loop, redis: redis, prefix: prefix, seed: 1)
    var clock: () -> Int64 = { 0 }
    activities = ActivityRegistry(loop: loop, redis: redis, prefix: prefix, clock: { clock() })
    taker = ActivityTaker(
      activities, settings: ActivitySettings(idAttribute: idAttribute.flatMap(ActivityIDAttribute.init)))
    pages = ActivityPages(devices: devices, activities: activities)
    tokens = Tokens(loop: loop, rabbitmq: rabbitmq, redis: configuration, prefix: prefix, seed: 2)
    admin = try AMQPAdmin(addresses: [address], tls: nil, name: "activity test")
    try admin.perform(all: rabbitmq.topology.declarations)
    clock = { [unowned self] in self.now }
  }

  func close() {
    tokens.close()
    redis.close()
    admin.close()
  }

  private func wait<Value>(_ ask: (@escaping (Value) -> Void) -> Void) throws -> Value {
    var answer: Value?
    ask { answer = $0 }
    guard turn(until: { answer != nil }), let answer else { throw TestFailure("no answer") }
    return answer
  }

  private func turn(until isDone: () -> Bool) -> Bool {
    loop.poll(maximumWaitMilliseconds: 0)
    let start = loop.now.monotonic
    while !isDone() {
      turnOnce(tokens)
      if loop.now.monotonic.milliseconds(since: start) > 20_000 { return false }
    }
    return true
  }

  private func turnOnce(_ tokens: Tokens) {
    loop.poll(maximumWaitMilliseconds: 2)
    redis.turn()
    devices.turn()
    tokens.turn()
    loop.flush()
  }

  // MARK: Devices

  func register(_ device: String, startToken: String?, alertToken: String? = nil) throws {
    var registration = DeviceRegistration(device: device)
    if let bytes = alertToken.flatMap({ Hex.bytes($0.utf8.span) }) { registration.token = .set(bytes) }
    if let startToken {
      registration.startTokens = [.init(type: "*", token: Hex.bytes(startToken.utf8.span))]
    }
    _ = try wait { devices.register(registration, at: now, in: scope, then: $0) }.get()
  }

  func token(_ device: String, _ token: String, at: Int64? = nil) throws -> RegistrationAnswer {
    try wait { ask(tokens, device, token, at: at, $0) }.get()
  }

  private func ask(
    _ tokens: Tokens, _ device: String, _ token: String, at: Int64?,
    _ then: @escaping ActivityRegistrar.Then
  ) {
    // Small numbers are milliseconds from now; others are the time of an earlier registration.
    lastAt = (at ?? 2) > 1_000 ? at ?? 0 : loop.now.unixMilliseconds + (at ?? 2)
    let bytes = token.isEmpty ? nil : Hex.bytes(token.utf8.span)
    tokens.registrar.register(
      ActivityRegistration(device: device, activity: "ride-17", token: bytes), at: lastAt, in: scope, then: then)
  }

  /// true: it answered before it died.
  func tokenOfADyingRegistrar(_ device: String, _ token: String, turns: Int) throws -> Bool {
    let dying = Tokens(
      loop: loop, rabbitmq: rabbitmq, redis: try RedisConfiguration(url: RedisServer.shared().url), prefix: prefix,
      seed: UInt64(turns))
    var isAnswered = false
    ask(dying, device, token, at: nil) { if case .success = $0 { isAnswered = true } }
    for _ in 0..<turns * 3 where !isAnswered { turnOnce(dying) }
    dying.close()
    return isAnswered
  }

  // MARK: Jobs

  private func parse(_ text: String, into job: inout PushJob) throws {
    job.bytes = Array(text.utf8)
    job.bodyCount = job.bytes.count
    let none: [UInt8] = []
    do {
      try parser.parse(into: &job, fallbackID: none.span)
    } catch {
      throw TestFailure("\(error.detail): \(text)")
    }
  }

  func take(_ text: String) throws -> ActivityTaker.Taken {
    var answer: ActivityTaker.Taken?
    var job = PushJob()
    try parse(text, into: &job)
    taker.take(job, in: scope, leaving: ([], [])) { answer = $0 }
    guard turn(until: { answer != nil }), let answer else { throw TestFailure("no answer") }
    return answer
  }

  func begin(_ activity: String, _ number: UInt32) throws -> ActivityTaker.Taken {
    guard let id = ActivityID(activity) else { throw TestFailure("no id") }
    return try wait { taker.begin(id, in: scope, number: number, then: $0) }
  }

  /// The job's body when it goes out, at once or after its wait.
  func publishedBody(_ text: String) throws -> String {
    var taken = try take(text)
    if case .waits(let number, let milliseconds) = taken {
      now += milliseconds
      taken = try begin("ride-17", number)
    }
    guard case .publish(let body) = taken else { throw TestFailure("\(taken): \(text)") }
    return String(decoding: body, as: UTF8.self)
  }

  /// Makes a page of a job that went out, for the first devices or for the live members, and resolves it: tokens by device.
  func page(_ text: String, _ number: UInt32, live: Bool = false) throws -> [String: String] {
    var ordinals: [UInt32] = [0, 1, 2]
    if live {
      guard let id = ActivityID("ride-17") else { throw TestFailure("no id") }
      ordinals = try wait { activities.live(id, in: scope, after: nil, limit: 100, then: $0) }.get().ordinals
    }
    if ordinals.isEmpty { return [:] }
    var job = PushJob()
    try parse(text, into: &job)
    var body: [UInt8] = []
    PageWriter.append(
      job, number: number, ordinals: Array(ordinals.map(String.init).joined(separator: ",").utf8), epoch: 0,
      to: &body)
    return try resolve(String(decoding: body, as: UTF8.self))
  }

  /// Makes a page of alerts for the first devices.
  func fallbackPage(_ text: String, _ number: UInt32) throws -> String {
    var job = PushJob()
    try parse(text, into: &job)
    var body: [UInt8] = []
    FallbackWriter.append(job, number: number, ordinals: Array("0,1,2".utf8), epoch: 0, to: &body)
    return String(decoding: body, as: UTF8.self)
  }

  /// APNs reports the token of a page's only target as gone, and the page's end is told. Returns once the registry and the activity have
  /// forgotten it.
  func tokenGone(_ text: String, ordinal: UInt32) throws {
    var job = PushJob()
    try parse(text, into: &job)
    _ = job.resolve(try find(job), isRepeated: false)
    guard let token = Hex.bytes(job.bytes.span.extracting(job.targets[0].range)) else { throw TestFailure("no token") }
    var isStored = false
    pages.tokenGone(token, job, target: 0, since: now + 60_000, in: scope) { isStored = true }
    guard turn(until: { isStored }) else { throw TestFailure("no answer") }
    guard let id = ActivityID("ride-17") else { throw TestFailure("no id") }
    let parent = ActivityJobs.word(of: job.bytes.span.extracting(job.parentID.range))
    let isAlert = job.pushType == .alert
    let _: Void = try wait {
      activities.startsEnded(
        of: id, in: scope, job: parent, areAlerts: isAlert, ordinals: [ordinal], haveReached: [false], then: $0)
    }.get()
    for _ in 0..<1_000 {
      let record = try wait { devices.records(of: [ordinal], in: scope, then: $0) }.get()[0]
      let shown = try wait { activities.show(id, in: scope, then: $0) }.get()
      if record?.token == nil && shown?.members[ordinal] == nil { return }
    }
    throw TestFailure("its token and its alert are known still")
  }

  private func find(_ job: borrowing PushJob, apnsID: UUIDValue? = nil) throws -> PageResolution {
    let bytes = job.bytes
    let ordinals = (0..<job.page.count).map { job.page.ordinal($0, in: bytes.span) }
    let finish = pages.finish(job, isOver: false, apnsID: apnsID, in: scope)
    let records = try wait { devices.records(of: ordinals, epoch: job.page.epoch, in: scope, then: $0) }.get()
    return try wait { finish(records.map { .found($0) }, $0) }.get()
  }

  func resolve(_ text: String, apnsID: UUIDValue? = nil) throws -> [String: String] {
    var job = PushJob()
    try parse(text, into: &job)
    let resolution = try find(job, apnsID: apnsID)
    var tokens: [String: String] = [:]
    for entry in resolution.entries {
      guard case .token(let token, let device, _) = entry else { continue }
      tokens[String(decoding: resolution.bytes[device.range], as: UTF8.self)] = String(
        decoding: resolution.bytes[token.range], as: UTF8.self)
    }
    return tokens
  }

  /// APNs reports a member's token as gone.
  func gone(_ text: String, device: String, _ token: String) throws {
    guard let id = ActivityID("ride-17") else { throw TestFailure("no id") }
    let ordinals = try wait { devices.members(of: .id(device), limit: 1, in: scope, then: $0) }.get()
    let bytes = Hex.bytes(token.utf8.span) ?? []
    let isOver = try wait {
      activities.unregistered(bytes, of: id, in: scope, ordinal: ordinals[0], at: lastAt + 60_000, then: $0)
    }
    #expect(try isOver.get())
  }

  /// Takes the messages that wait for lanes.
  func queued() throws -> [(id: String, text: String)] {
    var messages: [(id: String, text: String)] = []
    try admin.consume(
      queue: rabbitmq.topology.jobsQueue(.transactional), limit: 100, idleMilliseconds: 300
    ) { message throws(AMQPError) in
      messages.append((message.messageID, String(decoding: message.body, as: UTF8.self)))
      return .acknowledge
    }
    return messages
  }
}
