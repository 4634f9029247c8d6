import PushCore

/// What producers publish: jobs that share devices, batches, old jobs, and the same job twice.
struct SimulatedProducer {
  static let apps = ["com.example.app", "com.example.campaign", "com.example.other"]
  /// Token prefix of the second app: many of its tokens are bad.
  static let campaignPrefix = "ca"

  private let world: SimulatedWorld

  init(world: SimulatedWorld) {
    self.world = world
  }

  /// Some jobs share devices, some are batches.
  func enqueue(_ number: Int) {
    if world.chance(world.settings.pagesPerMille) { return enqueuePage(number) }
    let jobClass: JobClass = world.chance(300) ? .bulk : .transactional
    let job = "job-\(number)"
    let app = world.settings.hasVariedJobs ? world.pick(SimulatedProducer.apps.count) : 0
    let targets = targets(of: job, app: app)
    let to =
      targets.count == 1
      ? "{\"token\":\"\(targets[0].token)\"}"
      : "{\"tokens\":[\(targets.map { "\"\($0.token)\"" }.joined(separator: ","))]}"
    let variety = world.settings.hasVariedJobs ? Variety(world) : Variety()
    let body = """
      {"version":1,"id":"\(job)","app":"\(SimulatedProducer.apps[app])","push_type":"alert","to":\(to),\
      \(variety.fields)"payload":{"aps":{"alert":"hello"}}}
      """
    let age = world.settings.retry.ageMaximumSeconds * 1000
    for target in targets {
      world.auditor.enqueued(
        target, endsAt: variety.endsAt(age), endsNotBefore: variety.endsNotBefore(age),
        registeredAt: variety.registeredAt)
    }
    let message = Message(
      body: Array(body.utf8), state: nil, jobClass: jobClass, targets: targets, enqueuedAt: variety.enqueuedAt)
    publish(message, at: variety.publishedAt)
    guard world.chance(world.faults.publishedTwice) else { return }
    // Its producer did not receive the confirm. Both copies have an outcome, and both may be in flight at once.
    for target in targets { world.auditor.publishedAgain(target) }
    guard world.settings.hasVariedJobs else {
      world.broker.ready.insert(message, at: world.pick(world.broker.ready.count))
      return
    }
    let later = Int64(world.chance(600) ? world.pick(300) : world.pick(60_000))
    publish(message, at: max(variety.publishedAt, world.milliseconds) + later)
  }

  /// A page of an audience, as the expansion consumer publishes it, now and then twice: a step that was repeated.
  private func enqueuePage(_ number: Int) {
    let ordinals = (0..<(1 + world.pick(30))).map { UInt32(number * 100 + $0 + world.pick(2)) }
    let devices = Set(ordinals).sorted()
    let parent = "audience-\(number)"
    let body = """
      {"version":1,"parent_id":"\(parent)","id":"\(parent)/\(number)","app":"\(SimulatedProducer.apps[0])","push_type":"alert",\
      "to":{"page":\(number),"ordinals":[\(devices.map(String.init).joined(separator: ","))]},\
      "payload":{"aps":{"alert":"hello"}}}
      """
    let start = world.milliseconds
    let targets = devices.map { Target(job: "\(parent)/\(number)", token: RegistryServer.token($0)) }
    for (ordinal, target) in zip(devices, targets) {
      let registeredAt = start - 1 - Int64(world.pick(1_000_000))
      // Some were forgotten before their page came.
      if !world.chance(50) {
        world.registry.register(ordinal, at: registeredAt)
      } else {
        world.auditor.lostToken(target.token, at: start)
      }
      world.auditor.enqueued(target, registeredAt: registeredAt)
    }
    world.auditor.expectSettlements(ofPage: targets)
    let message = Message(
      body: Array(body.utf8), state: nil, jobClass: world.chance(300) ? .bulk : .transactional, targets: targets,
      enqueuedAt: start / 1000 * 1000)
    let at = start + Int64(world.pick(60_000))
    publish(message, at: at)
    guard world.chance(world.faults.publishedTwice) else { return }
    for target in targets { world.auditor.publishedAgain(target) }
    publish(message, at: at + Int64(world.pick(10_000)))
  }

  private func publish(_ message: Message, at time: Int64) {
    if time <= world.milliseconds {
      world.broker.ready.append(message)
    } else {
      world.broker.coming.append((time, message))
    }
  }

  private func targets(of job: String, app: Int) -> [Target] {
    let devices = app == 0 ? 40 : 200
    let prefix = app == 0 ? "00" : app == 1 ? SimulatedProducer.campaignPrefix : "00"
    let base = app == 2 ? 0x10_0000 : 0
    let tokens = (0..<(world.chance(100) ? 2 + world.pick(40) : 1)).map { index in
      prefix + Hex.text(base + world.pick(devices) * 100 + index, count: 14)
    }
    return Set(tokens).sorted().map { Target(job: job, token: $0) }
  }
}

/// What distinguishes a job from the next one.
private struct Variety {
  var publishedAt: Int64 = 0
  var enqueuedAt: Int64?
  var registeredAt: Int64?
  var expiration: Int64?
  var collapseID: String?

  init() {}

  init(_ world: SimulatedWorld) {
    let start = world.milliseconds
    publishedAt = world.chance(400) ? start : start + Int64(world.pick(60_000))
    // AMQP's timestamp has whole seconds.
    if world.chance(700) { enqueuedAt = publishedAt / 1000 * 1000 }
    // It waited for hours, before the broker or in it.
    if world.chance(world.faults.hoursOld) {
      enqueuedAt = (publishedAt - Int64(7_200_000 + world.pick(7_200_000))) / 1000 * 1000
    }
    if world.chance(250) { registeredAt = start - Int64(world.pick(30 * 86_400_000)) }
    if world.chance(80) { expiration = publishedAt / 1000 + Int64(world.pick(300)) }
    if world.chance(300) { collapseID = "collapse-\(world.pick(4))" }
  }

  /// Members of the job, each with its comma.
  var fields: String {
    var fields = ""
    if let registeredAt { fields += "\"token_registered_at\":\(registeredAt)," }
    if let expiration, expiration > 0 { fields += "\"expiration\":\(expiration)," }
    if let collapseID { fields += "\"collapse_id\":\"\(collapseID)\"," }
    return fields
  }

  func endsNotBefore(_ ageMilliseconds: Int64) -> Int64 { min(endsAt(ageMilliseconds), publishedAt + ageMilliseconds) }

  /// When the job's time ends, Unix milliseconds, if jobs can become that old.
  func endsAt(_ ageMilliseconds: Int64) -> Int64 {
    min(enqueuedAt.map { $0 + ageMilliseconds } ?? .max, expiration.map { $0 * 1000 } ?? .max)
  }
}
