/// A job for an audience.
struct SimulatedAudienceJob: Sendable {
  enum Audience: Sendable {
    case users([String])
    case devices([String])
    /// Devices with the tag `plan` = `gold`.
    case segment
    /// The members of its activity.
    case activity
  }

  enum ActivityPush: String, Sendable {
    case start, update, end
    /// The end for some devices.
    case leave
  }

  static let segment = "GOLD"
  /// The segment as stored in Redis.
  static func segmentEntry(_ hasTwins: Bool) -> String {
    "\(WorkerWorld.unixMillisecondsAtZero) {\"tag\":\"plan\",\"is\":\"\(SimulatedPhone.gold(hasTwins))\"}"
  }

  let number: Int
  let app: SimulatedApp
  let id: String
  let audience: Audience
  /// nil: an alert.
  let push: ActivityPush?
  let activity: String
  let routingKey: String
  /// nil: only its message's time and its arrival tell its order.
  let sequence: Int64?
  /// Unix seconds; nil: none of its own.
  let expiration: Int64?
  /// In its content state: all starts of an activity have the same one.
  let state: Int

  /// - Parameter number: among the jobs of its app; also in its payload.
  init(
    _ number: Int, of app: SimulatedApp, _ audience: Audience, isBulk: Bool, push: ActivityPush? = nil,
    activity: String = "", isNumbered: Bool = false, expiration: Int64? = nil
  ) {
    self.expiration = expiration
    self.app = app
    self.number = number
    state = push == .start ? number / 1_000 * 1_000 + app.firstNumber : number
    sequence = isNumbered ? WorkerWorld.unixMillisecondsAtZero * 1_000 + Int64(number) : nil
    self.audience = audience
    self.push = push
    self.activity = activity
    routingKey = isBulk ? "bulk" : "transactional"
    let digits = String(number, radix: 16)
    id = "00000000-0000-4000-8000-\(app.jobDigit)" + String(repeating: "0", count: 11 - digits.count) + digits
  }

  /// The activity whose start has this content state.
  static func activity(ofState state: Int) -> String { "ride-\(state / 1_000 - 1)" }

  func takes(_ phone: SimulatedPhone) -> Bool {
    switch audience {
    case .users(let users): users.contains(phone.user)
    case .devices(let devices): devices.contains(phone.name)
    case .segment: phone.isGold
    case .activity: false
    }
  }

  /// It is for devices by name, and this is one of them.
  func names(_ device: String) -> Bool {
    if case .devices(let devices) = audience { devices.contains(device) } else { false }
  }

  var body: String {
    func list(_ names: [String]) -> String { names.map { "\"\($0)\"" }.joined(separator: ",") }
    let to =
      switch audience {
      case .users(let users): "{\"users\":[\(list(users))]}"
      case .devices(let devices): "{\"devices\":[\(list(devices))]}"
      case .segment: "{\"segment\":\"\(SimulatedAudienceJob.segment)\"}"
      case .activity: "{\"activity\":\"\(activity)\"}"
      }
    let head =
      "{\"version\":1,\"id\":\"\(id)\",\"app\":\"\(app.id)\",\"to\":\(to),"
      + (sequence.map { "\"sequence\":\($0)," } ?? "") + (expiration.map { "\"expiration\":\($0)," } ?? "")
    let content = "\"content-state\":{\"n\":\(state)}"
    switch push {
    case nil: return head + "\"push_type\":\"alert\",\"payload\":{\"aps\":{\"alert\":\"hello all \(number)\"}}}"
    case .start:
      return head
        + "\"push_type\":\"liveactivity\",\"activity\":\"\(activity)\",\"payload\":{\"aps\":{\"event\":\"start\","
        + "\"attributes-type\":\"Ride\",\"attributes\":{},\(content),\"alert\":{\"title\":\"t\",\"body\":\"b\"}}}}"
    case .leave:
      return head
        + "\"push_type\":\"liveactivity\",\"activity\":\"\(activity)\",\"payload\":{\"aps\":{\"event\":\"end\",\(content)}}}"
    case .update, .end:
      let event = push?.rawValue ?? ""
      return head + "\"push_type\":\"liveactivity\",\"payload\":{\"aps\":{\"event\":\"\(event)\",\(content)}}}"
    }
  }
}
