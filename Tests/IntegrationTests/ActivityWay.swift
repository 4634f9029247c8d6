import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

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
final class ActivityWay {
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
  private let server: RedisServer
  private var parser = JobParser()

  /// - Parameter hasOwnClock: its activities' time is `now`; else the loop's.
  init(idAttribute: String? = nil, redis server: RedisServer? = nil, hasOwnClock: Bool = true) throws {
    self.server = try server ?? RedisServer.shared()
    loop = try EventLoop()
    now = loop.now.unixMilliseconds
    guard let scope = AppScope(app: "com.example.app", environment: .sandbox) else { throw TestFailure("no scope") }
    self.scope = scope
    let configuration = try RedisConfiguration(url: self.server.url)
    let address = try AMQPAddress(RabbitMQServer.shared().url)
    rabbitmq = RabbitMQSettings(
      addresses: [address], tls: nil,
      topology: Topology(prefix: prefix, retryDelaysSeconds: [1], resultsLog: nil), laneName: "way", prefetch: 10,
      randomSeed: 1)
    redis = RedisClient(loop: loop, configuration: configuration, tls: nil, seed: 1)
    devices = DeviceRegistry(loop: loop, redis: redis, prefix: prefix, seed: 1)
    var clock: () -> Int64 = { 0 }
    activities = ActivityRegistry(
      loop: loop, redis: redis, prefix: prefix, clock: hasOwnClock ? { clock() } : nil)
    activities.followStarts(of: devices)
    taker = ActivityTaker(
      activities, settings: ActivitySettings(idAttribute: idAttribute.flatMap(ActivityIDAttribute.init)))
    pages = ActivityPages(devices: devices, activities: activities)
    tokens = Tokens(loop: loop, rabbitmq: rabbitmq, redis: configuration, prefix: prefix, seed: 2)
    admin = try AMQPAdmin(patient: address)
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

  func mark() throws { try server.mark(prefix) }

  func rewind(ends: Bool = false) throws { try server.rewind(prefix, ends: ends) }

  /// When the client's connection was made, Unix milliseconds.
  func connectedAt() throws -> Int64 {
    let before = redis.generation
    guard turn(until: { redis.generation > before }) else { throw TestFailure("it does not connect again") }
    return redis.generationAt
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

  func payload(of body: [UInt8]) throws -> [UInt8] {
    var job = PushJob()
    try parse(String(decoding: body, as: UTF8.self), into: &job)
    return Array(job.bytes[job.payload.range])
  }

  /// The job's body when it goes out, at once or after its wait.
  func publishedBody(_ text: String) throws -> String {
    var taken = try take(text)
    if case .waits(_, let milliseconds) = taken {
      now += milliseconds
      taken = try take(text)
    }
    guard case .publish(let body) = taken else { throw TestFailure("\(taken): \(text)") }
    return String(decoding: body, as: UTF8.self)
  }

  /// Makes a page of a job that went out, for the first devices or for the live members, and resolves it: tokens by device.
  func page(_ text: String, _ number: UInt32, live: Bool = false, isOver: Bool = false) throws -> [String: String] {
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
    return try resolve(String(decoding: body, as: UTF8.self), isOver: isOver)
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

  /// The push of a start to a device has ended.
  func startEnded(_ jobID: String, ordinal: UInt32, hasReached: Bool) throws {
    guard let id = ActivityID("ride-17") else { throw TestFailure("no id") }
    let job = ActivityJobs.word(of: Array(jobID.utf8).span)
    let _: Void = try wait {
      activities.startsEnded(
        of: id, in: scope, job: job, areAlerts: false, ordinals: [ordinal], haveReached: [hasReached], then: $0)
    }.get()
  }

  private func find(_ job: borrowing PushJob, apnsID: UUIDValue? = nil, isOver: Bool = false) throws -> PageResolution {
    let bytes = job.bytes
    let ordinals = (0..<job.page.count).map { job.page.ordinal($0, in: bytes.span) }
    let finish = pages.finish(job, isOver: isOver, apnsID: apnsID, in: scope)
    let records = try wait { devices.records(of: ordinals, epoch: job.page.epoch, in: scope, then: $0) }.get()
    return try wait { finish(records.map { .found($0) }, $0) }.get()
  }

  func resolve(_ text: String, apnsID: UUIDValue? = nil, isOver: Bool = false) throws -> [String: String] {
    var job = PushJob()
    try parse(text, into: &job)
    let resolution = try find(job, apnsID: apnsID, isOver: isOver)
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
