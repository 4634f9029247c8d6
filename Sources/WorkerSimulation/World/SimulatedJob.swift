import PushCore

/// A job of the simulated world.
package struct SimulatedJob: Sendable {
  package let id: String
  /// Device tokens; empty: the job is invalid.
  package let targets: [String]
  let routingKey: String
  let body: [UInt8]
  /// Time until the producer publishes it again, because it got no confirm; nil: never.
  let againAfterNanoseconds: Int64?
  /// Its age when it is published, by its `timestamp`.
  private(set) var ageSeconds: Int64 = 0
  /// It says that its device registered the token just now (`token_registered_at`).
  private(set) var isRegistered = false
  /// It has an `expiration`.
  private(set) var hasExpiration = false

  /// Whom it tells how fair a lane is.
  enum Tenant: Sendable {
    /// Its APNs is in trouble.
    case stuck
    /// It must not wait for those.
    case punctual
  }

  /// nil: neither.
  private(set) var tenant: Tenant?

  /// How long its message may wait in a queue: RabbitMQ gives it up then; nil: for ever.
  private(set) var lifetimeMilliseconds: Int64?

  /// Its place among those with its collapse id for a device.
  struct Rank: Sendable {
    let collapseID: String
    let sequence: Int64
  }

  /// nil: it has no collapse id, or no number.
  private(set) var rank: Rank?

  /// First digits of device tokens that the APNs simulator answers with errors: see the simulator's table.
  private static let prefixes = [
    "dead", "dea1", "bad0", "bad1", "bad3", "bad5", "4130", "7007", "5000", "5030", "1429", "1500", "1503", "2503",
    "f007", "f002", "f008", "d0b0", "d0a0", "ab50", "ab51", "60a0", "60a1", "51a0", "51a1", "51a2",
  ]

  /// The token of a device that APNs reports as gone, although some jobs say that the device registered it again.
  static let reregistered = "dead" + String(repeating: "e", count: 60)
  static let idPrefix = "00000000-0000-4000-8000-"
  static let app = "com.example.app"
  static let campaignApp = "com.example.other"
  /// Of the tenant whose APNs is in trouble.
  static let stuckApp = "com.example.stuck"
  private static let deliverablePrefix = "aaaa"
  /// Whether APNs accepts pushes to this token.
  static func isDeliverable(_ token: String) -> Bool { token.hasPrefix(deliverablePrefix) }
  private static let largeBytes = 600_000
  /// So large that RabbitMQ dead-letters it without the worker.
  private static let hugeBytes = 9_000_000
  /// More than the error of any clock in the world.
  private static let oldSeconds: Int64 = 86_400

  /// - Parameters:
  ///   - unixSeconds: when it is published.
  ///   - settings: which kinds of jobs there are.
  init(number: Int, unixSeconds: Int64, _ settings: WorkerWorld.Settings, random: inout SeededRandom) {
    let isPlain = settings.hasPlainJobs
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    id = SimulatedJob.idPrefix + Hex.text(number, count: 12)
    func device() -> String {
      // Few tokens get errors; each of them is in several jobs.
      let prefix =
        !isPlain && pick(8) == 0
        ? SimulatedJob.prefixes[pick(UInt64(SimulatedJob.prefixes.count))] : SimulatedJob.deliverablePrefix
      return prefix + Hex.text(pick(SimulatedJob.isDeliverable(prefix) ? 50 : 3), count: 60)
    }
    let isOfCampaign = settings.hasCampaign && number % 2 == 1
    let isBulk = pick(4) == 0
    routingKey = isBulk || isOfCampaign ? "bulk" : "transactional"
    againAfterNanoseconds = !isPlain && pick(20) == 0 ? Int64(pick(20_000)) * 1_000_000 : nil
    let expiration = !isPlain && pick(20) == 0 ? unixSeconds + Int64(pick(60)) : nil
    let isOversized = settings.hasOversizedJobs && pick(30) == 0
    let isBroken = isOversized || !isPlain && pick(40) == 0
    var devices = [device()]
    if !isPlain, pick(12) == 0 {
      // Each device once: a repeated one is one target.
      for _ in 0..<pick(12) {
        let other = device()
        if !devices.contains(other) { devices.append(other) }
      }
    }
    if settings.hasHistory {
      if pick(30) == 0 { ageSeconds = SimulatedJob.oldSeconds }
      if pick(12) == 0 {
        devices = [SimulatedJob.reregistered]
        isRegistered = pick(2) == 0
      }
    }
    if isOfCampaign {
      let prefix = pick(5) < 3 ? "bad0" : SimulatedJob.deliverablePrefix
      let digits = Hex.text(number, count: 1)
      devices = [prefix + String(repeating: "c", count: 60 - digits.count) + digits]
    }
    targets = isBroken ? [] : devices
    let to =
      devices.count == 1
      ? "{\"token\":\"\(devices[0])\"}"
      : "{\"tokens\":[" + devices.map { "\"\($0)\"" }.joined(separator: ",") + "]}"
    let app = isOfCampaign ? SimulatedJob.campaignApp : SimulatedJob.app
    var fields = "\"version\":1,\"id\":\"\(id)\",\"app\":\"\(app)\",\"push_type\":\"alert\",\"to\":\(to)"
    hasExpiration = expiration != nil
    if let expiration { fields += ",\"expiration\":\(expiration)" }
    if !isPlain, pick(20) == 0 { fields += ",\"collapse_id\":\"c\(pick(3))\"" }
    if pick(10) == 0 { fields += ",\"priority\":5" }
    if isRegistered { fields += ",\"token_registered_at\":\(unixSeconds * 1000)" }
    let fillCount = isOversized ? (pick(8) == 0 ? SimulatedJob.hugeBytes : SimulatedJob.largeBytes) : 0
    if isOversized { fields += ",\"meta\":\"" } else if isBroken { fields += ",\"colour\":\"blue\"" }
    let end = (isOversized ? "\"" : "") + ",\"payload\":{\"aps\":{\"alert\":\"hello \(number)\"}}}"
    body = Array("{\(fields)".utf8) + Array(repeating: UInt8(ascii: "m"), count: fillCount) + Array(end.utf8)
  }

  /// A job that replaces others for a device of theirs, which APNs accepts pushes to.
  init(number: Int, device: Int, _ rank: Rank, isBulk: Bool) {
    id = SimulatedJob.idPrefix + Hex.text(number, count: 12)
    targets = [SimulatedJob.deliverablePrefix + "7" + Hex.text(device, count: 59)]
    routingKey = isBulk ? "bulk" : "transactional"
    againAfterNanoseconds = nil
    self.rank = rank
    let text =
      "{\"version\":1,\"id\":\"\(id)\",\"app\":\"\(SimulatedJob.app)\",\"push_type\":\"alert\",\"to\":{\"token\":\"\(targets[0])\"},"
      + "\"collapse_id\":\"\(rank.collapseID)\",\"sequence\":\(rank.sequence),"
      + "\"payload\":{\"aps\":{\"alert\":\"hello \(number)\"}}}"
    body = Array(text.utf8)
  }

  /// A job for a device of its own that RabbitMQ may give up.
  /// - Parameter lifetimeMilliseconds: nil: its routing key is no class.
  init(number: Int, lifetimeMilliseconds: Int64?, isBulk: Bool) {
    id = SimulatedJob.idPrefix + Hex.text(number, count: 12)
    let token = SimulatedJob.deliverablePrefix + "8" + Hex.text(number, count: 59)
    targets = lifetimeMilliseconds == nil ? [] : [token]
    routingKey = lifetimeMilliseconds == nil ? "urgent" : isBulk ? "bulk" : "transactional"
    againAfterNanoseconds = nil
    self.lifetimeMilliseconds = lifetimeMilliseconds
    let text =
      "{\"version\":1,\"id\":\"\(id)\",\"app\":\"\(SimulatedJob.app)\",\"push_type\":\"alert\",\"to\":{\"token\":\"\(token)\"},"
      + "\"payload\":{\"aps\":{\"alert\":\"hello \(number)\"}}}"
    body = Array(text.utf8)
  }

  /// A job for devices of its own, all of which APNs accepts pushes to.
  init(number: Int, _ tenant: Tenant, isBulk: Bool, targets count: Int) {
    id = SimulatedJob.idPrefix + Hex.text(number, count: 12)
    let (app, digit, environment) =
      switch tenant {
      case .stuck: (SimulatedJob.stuckApp, "5", "sandbox")
      case .punctual: (SimulatedJob.app, "6", "production")
      }
    targets = (0..<count).map {
      SimulatedJob.deliverablePrefix + digit + Hex.text(number, count: 30) + Hex.text($0, count: 29)
    }
    routingKey = isBulk ? "bulk" : "transactional"
    againAfterNanoseconds = nil
    self.tenant = tenant
    let to = targets.map { "\"\($0)\"" }.joined(separator: ",")
    let text =
      "{\"version\":1,\"id\":\"\(id)\",\"app\":\"\(app)\",\"environment\":\"\(environment)\",\"push_type\":\"alert\","
      + "\"to\":{\"tokens\":[\(to)]},\"payload\":{\"aps\":{\"alert\":\"hello \(number)\"}}}"
    body = Array(text.utf8)
  }
}
