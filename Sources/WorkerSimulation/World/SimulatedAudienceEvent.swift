import PushCore

/// A message of a device, its user or a producer in the simulated world, drawn before the world starts.
package struct SimulatedAudienceEvent: Sendable {
  enum Kind: Sendable {
    /// An app starts and registers its device.
    /// - Parameter part: of the fields; nil: all.
    case register(SimulatedPhone, part: SimulatedPhone.Part?)
    /// `sentAt`: when the user requested it, Unix milliseconds.
    case forget(user: String)
    case job(SimulatedAudienceJob)
    /// An activity's update token; empty: the activity ended on the device.
    case token(device: String, activity: String, token: String)
  }

  let app: SimulatedApp
  let kind: Kind
  /// The world's nanoseconds.
  let at: Int64
  /// When the device sent it, Unix milliseconds.
  let sentAt: Int64

  private static let productionStart: Int64 = 500_000_000
  /// Maximum delay of a late registration, milliseconds.
  private static let staleMilliseconds: UInt64 = 20_000
  /// How long before the aftermath devices begin to register.
  static let registersEarlierNanoseconds: Int64 = 15_000_000_000
  /// From the aftermath's begin until its activities end, where operators delete unused channels.
  static let longNanoseconds: Int64 = (WorkerWorld.unusedSeconds + 60) * 1_000_000_000

  private init(_ app: SimulatedApp, _ kind: Kind, at: Int64, lateByMilliseconds late: Int64 = 0) {
    self.app = app
    self.kind = kind
    self.at = at
    sentAt = WorkerWorld.unixMillisecondsAtZero + at / 1_000_000 - late
  }

  /// All events of a world.
  static func plan(seed: UInt64, _ settings: WorkerWorld.Settings) -> [SimulatedAudienceEvent] {
    guard settings.audienceDevices > 0 else { return [] }
    var random = SeededRandom(seed: seed ^ 0x7265_6769_7374_6572)
    var events = plan(.first, &random, settings)
    if settings.hasSecondApp { events += plan(.second, &random, settings) }
    return events
  }

  /// A device, and an update of an activity whose start comes later, for a world with nothing else.
  /// - Parameters:
  ///   - at: of the update, the world's nanoseconds.
  ///   - startAt: nil: nothing starts it.
  package static func earlyUpdate(
    at: Int64, startAt: Int64?, _ settings: WorkerWorld.Settings
  ) -> [SimulatedAudienceEvent] {
    let phone = SimulatedPhone(0, version: 0, app: .first, settings)
    let start = SimulatedAudienceJob(
      1_000, of: .first, .devices([phone.name]), isBulk: false, push: .start, activity: "ride-0")
    let update = SimulatedAudienceJob(1_001, of: .first, .activity, isBulk: false, push: .update, activity: "ride-0")
    return [
      SimulatedAudienceEvent(.first, .register(phone, part: nil), at: productionStart),
      SimulatedAudienceEvent(.first, .job(update), at: at),
    ] + (startAt.map { [SimulatedAudienceEvent(.first, .job(start), at: $0)] } ?? [])
  }

  /// Devices register again, and there are more jobs and activities.
  static func aftermath(
    seed: UInt64, _ settings: WorkerWorld.Settings, from begin: Int64
  ) -> [SimulatedAudienceEvent] {
    guard settings.audienceDevices > 0 else { return [] }
    var random = SeededRandom(seed: seed ^ 0x6166_7465_726D_6174)
    var events = aftermath(.first, &random, settings, begin)
    if settings.hasSecondApp { events += aftermath(.second, &random, settings, begin) }
    return events
  }

  private static func aftermath(
    _ app: SimulatedApp, _ random: inout SeededRandom, _ settings: WorkerWorld.Settings, _ begin: Int64
  ) -> [SimulatedAudienceEvent] {
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    var events: [SimulatedAudienceEvent] = []
    for number in 0..<settings.audienceDevices {
      let phone = SimulatedPhone(number, version: pick(4) == 0 ? 1 : 0, app: app, settings)
      let at = begin - registersEarlierNanoseconds + Int64(pick(5_000)) * 1_000_000
      events.append(SimulatedAudienceEvent(app, .register(phone, part: nil), at: at))
    }
    for number in 0..<2 + pick(6) {
      let audience: SimulatedAudienceJob.Audience =
        pick(3) == 0 ? .segment : .users([SimulatedPhone.user(of: pick(UInt64(settings.audienceDevices)), settings)])
      let job = SimulatedAudienceJob(
        app.firstNumber + settings.audienceJobs + number, of: app, audience, isBulk: pick(2) == 0)
      events.append(SimulatedAudienceEvent(app, .job(job), at: begin + Int64(pick(10_000)) * 1_000_000))
    }
    for number in 0..<1 + pick(2) {
      let start = begin + Int64(pick(3_000)) * 1_000_000
      events += plan(activity: settings.activities + number, of: app, &random, settings, start: start)
    }
    guard settings.channelCommands > 0 else { return events }
    // Its last update is so old that its channel counts as unused when it ends.
    for index in events.indices {
      if case .job(let job) = events[index].kind, job.push == .end {
        events[index] = SimulatedAudienceEvent(
          app, events[index].kind, at: begin + longNanoseconds + Int64(pick(2_000)) * 1_000_000)
      }
    }
    return events
  }

  private static func plan(
    _ app: SimulatedApp, _ random: inout SeededRandom, _ settings: WorkerWorld.Settings
  ) -> [SimulatedAudienceEvent] {
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    func some(_ count: Int) -> [Int] {
      (0..<1 + pick(UInt64(count))).map { _ in pick(UInt64(settings.audienceDevices)) }
    }
    let span = UInt64(settings.productionMilliseconds)
    func time() -> Int64 { productionStart + Int64(1_000 + pick(2 * span)) * 1_000_000 }
    var events: [SimulatedAudienceEvent] = []
    func register(_ phone: SimulatedPhone, at: Int64, late: Int64 = 0) {
      guard settings.registersInParts else {
        events.append(SimulatedAudienceEvent(app, .register(phone, part: nil), at: at, lateByMilliseconds: late))
        return
      }
      // Their order of time is not that of their arrival.
      for (number, part) in SimulatedPhone.Part.allCases.enumerated() {
        let delay = Int64(pick(3_000))
        events.append(
          SimulatedAudienceEvent(
            app, .register(phone, part: part), at: at + delay * 1_000_000,
            lateByMilliseconds: late + delay - Int64(number)))
      }
    }
    for number in 0..<settings.audienceDevices {
      let phone = SimulatedPhone(number, version: 0, app: app, settings)
      register(
        phone, at: settings.registersThroughout ? time() : productionStart + Int64(number) * 10_000_000)
      // Apps repeat the registration at each start, sometimes with another token.
      for _ in 0..<pick(3) {
        let later = SimulatedPhone(number, version: pick(4) == 0 ? 1 : 0, app: app, settings)
        let late = pick(6) == 0 ? Int64(pick(staleMilliseconds)) : 0
        register(later, at: time(), late: late)
      }
    }
    for _ in 0..<pick(3) {
      let user = SimulatedPhone.user(of: pick(6), settings)
      events.append(SimulatedAudienceEvent(app, .forget(user: user), at: time()))
    }
    for number in 0..<settings.audienceJobs {
      let audience: SimulatedAudienceJob.Audience =
        switch pick(4) {
        case 0: .segment
        case 1: .devices(some(8).map { SimulatedPhone.name($0, settings) })
        default: .users(some(6).map { SimulatedPhone.user(of: $0, settings) })
        }
      let job = SimulatedAudienceJob(app.firstNumber + number, of: app, audience, isBulk: pick(2) == 0)
      let at = time()
      events.append(SimulatedAudienceEvent(app, .job(job), at: at))
      // The producer got no confirm and publishes it again.
      if pick(8) == 0 {
        events.append(SimulatedAudienceEvent(app, .job(job), at: at + Int64(pick(20_000)) * 1_000_000))
      }
    }
    for number in 0..<settings.activities { events += plan(activity: number, of: app, &random, settings) }
    return events
  }

  /// One activity: a start, updates and an end, while devices register their update tokens, some early, some late.
  private static func plan(
    activity: Int, of app: SimulatedApp, _ random: inout SeededRandom, _ settings: WorkerWorld.Settings,
    start known: Int64? = nil
  ) -> [SimulatedAudienceEvent] {
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    let name = "ride-\(activity)"
    let start = known ?? productionStart + Int64(1_500 + pick(3_000)) * 1_000_000
    var events: [SimulatedAudienceEvent] = []
    var number = 1_000 * (activity + 1) + app.firstNumber
    func add(
      _ audience: SimulatedAudienceJob.Audience, _ push: SimulatedAudienceJob.ActivityPush, at: Int64,
      forSeconds lifetime: Int64? = nil
    ) {
      let job = SimulatedAudienceJob(
        number, of: app, audience, isBulk: false, push: push, activity: name,
        isNumbered: settings.hasBursts && push != .start,
        expiration: lifetime.map { (WorkerWorld.unixMillisecondsAtZero + at / 1_000_000) / 1_000 + $0 })
      number += 1
      events.append(SimulatedAudienceEvent(app, .job(job), at: at))
    }
    func someUser() -> String { SimulatedPhone.user(of: pick(UInt64(settings.audienceDevices)), settings) }
    let users = Set((0..<1 + pick(5)).map { _ in someUser() })
    guard !settings.repeatsStarts else {
      // Nothing else changes who is a member: whoever the first starts missed, a later one must reach.
      var at = start
      for _ in 0..<1 + pick(3) {
        let seconds = 2 + pick(10)
        add(.users(users.sorted()), .start, at: at, forSeconds: Int64(seconds))
        at += Int64(seconds * 1_000 + pick(10_000)) * 1_000_000
      }
      add(.users(users.sorted()), .start, at: at)
      return events
    }
    add(.users(users.sorted()), .start, at: start)
    for update in 0..<(settings.hasBursts ? 0 : pick(8)) {
      add(.activity, .update, at: start + Int64(500 + update * 700 + pick(3_000)) * 1_000_000)
    }
    for _ in 0..<(settings.hasBursts ? 1 + pick(4) : 0) {
      let burst = start + Int64(500 + pick(6_000)) * 1_000_000
      for _ in 0..<2 + pick(10) { add(.activity, .update, at: burst + Int64(pick(30)) * 1_000_000) }
    }
    if pick(2) == 0 { add(.activity, .end, at: start + Int64(4_000 + pick(8_000)) * 1_000_000) }
    if settings.channelAbove != nil {
      // More devices join, with the same payload.
      for _ in 0..<pick(3) { add(.users([someUser()]), .start, at: start + Int64(pick(9_000)) * 1_000_000) }
    }
    for device in 0..<settings.audienceDevices where pick(3) > 0 {
      let phone = SimulatedPhone.name(device, settings)
      let at = start + Int64(pick(12_000) - 1_000) * 1_000_000
      let token = SimulatedPhone.updateToken(device, activity, app)
      events.append(SimulatedAudienceEvent(app, .token(device: phone, activity: name, token: token), at: at))
      // The user dismisses the activity; or the message is duplicated.
      switch pick(8) {
      case 0:
        let later = at + Int64(1 + pick(8_000)) * 1_000_000
        events.append(SimulatedAudienceEvent(app, .token(device: phone, activity: name, token: ""), at: later))
      case 1:
        var again = SimulatedAudienceEvent(app, .token(device: phone, activity: name, token: token), at: at)
        again = SimulatedAudienceEvent(again, at: at + Int64(pick(5_000)) * 1_000_000)
        events.append(again)
      default: break
      }
    }
    guard settings.hasLeaves else { return events }
    for _ in 0..<pick(4) {
      let devices = Set(
        (0..<1 + pick(6)).map { _ in SimulatedPhone.name(pick(UInt64(settings.audienceDevices)), settings) })
      add(.devices(devices.sorted()), .leave, at: start + Int64(pick(12_000)) * 1_000_000)
    }
    return events
  }

  /// The same message, published again.
  private init(_ event: SimulatedAudienceEvent, at: Int64) {
    app = event.app
    kind = event.kind
    sentAt = event.sentAt
    self.at = at
  }

  /// The body of the message.
  var body: String {
    func registration(_ kind: String, _ fields: String) -> String {
      "{\"version\":1,\"kind\":\"\(kind)\",\"at\":\(sentAt),\"app\":\"\(app.id)\",\(fields)}"
    }
    switch kind {
    case .register(let phone, let part): return registration("device", phone.fields(part))
    case .forget(let user): return registration("forget", "\"user\":\"\(user)\"")
    case .token(let device, let activity, let token):
      return registration(
        "activity", "\"device\":\"\(device)\",\"activity\":\"\(activity)\",\"token\":\"\(token)\"")
    case .job(let job): return job.body
    }
  }
}
