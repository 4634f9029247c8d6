package import PushCore

/// The devices of the tokens, for Live Activities only: a value that takes accepted pushes and the time, and
/// returns what each device displays and registers.
///
/// Every token with an accepted start is a push-to-start token of a device. Update tokens are made here. Nothing
/// here decides APNs' answers, except for update tokens of activities that are gone.
package struct SimulatedDevices: Sendable {
  package struct Settings: Sendable {
    /// Time from a start to the registration of the update token.
    package var registerMilliseconds: Int64 = 200
    /// Where in `attributes` the app keeps the activity's id.
    package var idPath = ["activityId"]
    /// Maximum of activities kept, ended ones included. 0: no device displays anything.
    package var activitiesMaximum = 50_000

    package init() {}
  }

  /// Apple's limits: an activity gets updates for eight hours, and stays on the lock screen for four more.
  package static let activeMilliseconds: Int64 = 8 * 3_600_000
  package static let lingerMilliseconds: Int64 = 4 * 3_600_000
  /// A push that waits to be overtaken arrives after this time at the latest.
  static let overtakeMilliseconds: Int64 = 2_000
  /// Maximum of device ids that tests set, and of waiting pushes.
  static let namesMaximum = 1_000_000
  static let heldMaximum = 10_000

  /// Ids that are equal only canonically are two devices, or two activities.
  struct ActivityKey: Hashable {
    var app: String
    var device: ByteText
    var activity: ByteText

    init(app: String, device: String, activity: String) {
      self.app = app
      self.device = ByteText(device)
      self.activity = ByteText(activity)
    }
  }

  struct ChannelKey: Hashable {
    var app: String
    var channel: String
  }

  /// What happens after a delay.
  enum Wish: Hashable {
    case register(Int)
    case renew(Int)
    case swipe(Int)
    /// A push that no other overtook, by its number.
    case release(Target, Int)
  }

  /// What happens at a time of the device's clock.
  enum Date: Hashable {
    /// With the stale date, Unix seconds.
    case stale(Int, Int64)
    case expire(Int)
    case dismiss(Int)
  }

  struct HeldPush {
    var number: Int
    var push: ActivityPush
    var app: String
    var fault: ActivityFault
  }

  package var settings = Settings()
  package internal(set) var counts = ActivityCounts()
  let environment: String
  /// By number.
  var activities: [Int: SimulatedActivity] = [:]
  var byUpdateToken: [String: Int] = [:]
  /// Those on the screen.
  var byID: [ActivityKey: Int] = [:]
  var byChannel: [ChannelKey: Set<Int>] = [:]
  var held: [Target: HeldPush] = [:]
  var wishes = DueQueue<Wish>()
  var dates = DueQueue<Date>()
  var registrations: [ActivityRegistration] = []
  private var names: [String: String] = [:]
  /// Activities that left the screen, the oldest first: they are evicted first.
  private var gone = RingBuffer<Int>(growingFrom: 16)
  private var oldest = 1
  private var nextNumber = 1
  private var nextHeld = 0
  private var lastRegistrationAt: Int64 = 0
  private var random: SeededRandom

  package init(environment: String, seed: UInt64) {
    self.environment = environment
    // Not the stream that makes ids: those must not depend on the devices.
    random = SeededRandom(seed: seed ^ 0x5AC7_1F17)
  }

  // MARK: - For tests

  /// What devices display, in the order of the starts.
  package var all: [SimulatedActivity] { activities.values.sorted { $0.number < $1.number } }

  /// The id of a token's device: an unnamed device's id contains the last digits of its token.
  package func name(of startToken: String) -> String { names[startToken] ?? "device-" + startToken.suffix(16) }

  /// Names the device of a push-to-start token; nil: its default name. False: there are too many names.
  @discardableResult
  package mutating func setDevice(_ device: String?, of startToken: String) -> Bool {
    if device != nil, names.count >= SimulatedDevices.namesMaximum, names[startToken] == nil { return false }
    names[startToken] = device
    return true
  }

  /// The activity that has, or had, an update token.
  func activity(updateToken token: String) -> SimulatedActivity? { byUpdateToken[token].flatMap { activities[$0] } }

  /// The user swipes an activity away, on one device or (nil) on all. Returns on how many.
  package mutating func swipe(activity id: String, device: String?, now: Now) -> Int {
    let (activity, device) = (ByteText(id), device.map(ByteText.init))
    let found = byID.filter { $0.key.activity == activity && (device == nil || $0.key.device == device) }
    let numbers = found.values.sorted()
    for number in numbers {
      end(number, .swiped, at: now.unixMilliseconds, dismissal: now.unixMilliseconds, now: now)
    }
    return numbers.count
  }

  /// Forgets every activity and count; the devices register nothing.
  package mutating func removeAll() {
    var fresh = SimulatedDevices(environment: environment, seed: random.next())
    fresh.settings = settings
    fresh.names = names
    fresh.lastRegistrationAt = lastRegistrationAt
    self = fresh
  }

  package mutating func clearCounts() {
    counts = ActivityCounts()
  }

  // MARK: - What the engine asks

  /// Takes the registrations since the last call.
  package mutating func takeRegistrations() -> [ActivityRegistration] {
    defer { registrations.removeAll() }
    return registrations
  }

  /// The number of scheduled events.
  package var pendingCount: Int { wishes.count + dates.count }

  /// Milliseconds until the next event; nil: none.
  package func waitMilliseconds(now: Now) -> Int64? {
    let wish = wishes.next.map { ($0 - now.monotonic.nanoseconds + 999_999) / 1_000_000 }
    let date = dates.next.map { $0 - now.unixMilliseconds }
    guard let least = [wish, date].compactMap(\.self).min() else { return nil }
    return max(0, least)
  }

  // MARK: - The store

  /// A number for a push that waits.
  mutating func newHeldNumber() -> Int {
    nextHeld += 1
    return nextHeld
  }

  /// Puts an activity on the screen; evicts another if there are too many.
  mutating func add(_ push: ActivityPush, app: String, device: String, startToken: String, now: Now) -> Int {
    while activities.count >= settings.activitiesMaximum { forgetOne() }
    let number = nextNumber
    nextNumber += 1
    let activity = SimulatedActivity(
      number: number, app: app, device: device, startToken: startToken, push: push, startedAt: now.unixMilliseconds)
    activities[number] = activity
    if let id = activity.id { byID[ActivityKey(app: app, device: device, activity: id)] = number }
    if let channel = activity.channel { byChannel[ChannelKey(app: app, channel: channel), default: []].insert(number) }
    return number
  }

  /// Removes activities that left the screen from the tables of displayed ones.
  mutating func leave(_ activity: SimulatedActivity) {
    gone.append(activity.number)
    detach(activity)
  }

  private mutating func detach(_ activity: SimulatedActivity) {
    if let id = activity.id {
      let key = ActivityKey(app: activity.app, device: activity.device, activity: id)
      if byID[key] == activity.number { byID[key] = nil }
    }
    if let channel = activity.channel {
      let key = ChannelKey(app: activity.app, channel: channel)
      byChannel[key]?.remove(activity.number)
      if byChannel[key]?.isEmpty == true { byChannel[key] = nil }
    }
  }

  private mutating func forgetOne() {
    var number = gone.popFirst()
    if number == nil {
      while activities[oldest] == nil { oldest += 1 }
      number = oldest
    }
    guard let number, let activity = activities.removeValue(forKey: number) else { return }
    detach(activity)
    for token in activity.formerTokens + (activity.updateToken.map { [$0] } ?? []) { byUpdateToken[token] = nil }
    counts.forgotten += 1
    dropForgotten()
  }

  /// Drops the events of forgotten activities once they are most of the queue.
  private mutating func dropForgotten() {
    let bound = 4 * activities.count + held.count + 1024
    let numbers = activities
    if wishes.count > bound {
      wishes.removeAll { wish in
        switch wish {
        case .register(let number), .renew(let number), .swipe(let number): numbers[number] == nil
        case .release: false
        }
      }
    }
    if dates.count > bound {
      dates.removeAll { date in
        switch date {
        case .stale(let number, _), .expire(let number), .dismiss(let number): numbers[number] == nil
        }
      }
    }
  }

  /// 160 hexadecimal digits, unique to the device. They include the time: a simulator that restarts with the same
  /// seed makes different ones.
  mutating func newToken(of number: Int, now: Now) -> String {
    var bits = SeededRandom(seed: random.next() ^ UInt64(bitPattern: now.unixMilliseconds))
    var text: [UInt8] = Array("80".utf8)
    while text.count < 160 {
      let word = bits.next()
      for shift in stride(from: UInt64(0), to: 64, by: 4) where text.count < 160 {
        text.append(Hex.digit(UInt8(truncatingIfNeeded: word >> shift & 15)))
      }
    }
    let token = String(decoding: text, as: UTF8.self)
    byUpdateToken[token] = number
    return token
  }

  /// A device's registration for an activity; `token` empty: it ended. Times of registrations only grow.
  mutating func register(_ activity: SimulatedActivity, token: String, now: Now) {
    guard let id = activity.id else { return }
    lastRegistrationAt = max(now.unixMilliseconds, lastRegistrationAt + 1)
    counts.registrations += 1
    registrations.append(
      ActivityRegistration(
        at: lastRegistrationAt, app: activity.app, environment: environment, device: activity.device, activity: id,
        token: token))
  }
}
