import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Forgotten devices and users in a real Redis, beside registrations that come in another order than they were made.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct DeviceForgetTests {
  private static let start: Int64 = 1_790_000_000_000

  private func tag(_ name: String) -> [DeviceRegistration.Tag] { [.init(name: name, change: .set(.flag(true)))] }

  private func whole(_ number: Int, of user: String) -> DeviceRegistration {
    var registration = DeviceRegistration(device: "device-\(number)")
    registration.user = .set(user)
    registration.token = .set([1, UInt8(number)])
    registration.startTokens = [.init(type: "*", token: [2, UInt8(number)])]
    registration.locale = .set("de")
    registration.osVersion = .set(OSVersion(major: 18))
    registration.timeZone = .set("UTC")
    registration.tags = tag("whole")
    return registration
  }

  private func expectOnlyLater(_ record: DeviceRecord?, _ note: Comment) {
    #expect(record?.user == nil, "the forgotten user is back: \(note)")
    #expect(record?.tags.map(\.name) == ["later"], note)
    #expect(record?.token == nil && record?.startTokens == [] && record?.locale == nil, note)
    #expect(record?.osVersion == nil && record?.timeZone == nil, note)
  }

  /// Steps of one device, in the order of their times: all of it, a tag, it is forgotten, another tag.
  private func play(_ order: [Int], _ number: Int, _ bench: DeviceRegistryBench, forgetsUser: Bool) throws {
    let user = "user-\(number)"
    var tagged = DeviceRegistration(device: "device-\(number)")
    for step in order {
      let at = Self.start + Int64(step)
      switch step {
      case 0: _ = try bench.register(whole(number, of: user), at: at)
      case 2: _ = try bench.forget(forgetsUser ? .user(user) : .device(tagged.device), at: at)
      default:
        tagged.tags = tag(step == 1 ? "earlier" : "later")
        _ = try bench.register(tagged, at: at)
      }
    }
    expectOnlyLater(try bench.dump().records.values.first { $0.id == tagged.device }, "\(order)")
  }

  private func orders(_ begun: [Int], _ rest: [Int]) -> [[Int]] {
    rest.isEmpty ? [begun] : rest.flatMap { next in orders(begun + [next], rest.filter { $0 != next }) }
  }

  @Test(arguments: [true, false])
  func forgottenDevice_keepsOnlyWhatIsNewer(forgetsUser: Bool) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    for (number, order) in orders([], [0, 1, 2, 3]).enumerated() {
      try play(order, number, bench, forgetsUser: forgetsUser)
    }
    try bench.expectConsistent("forgotten")
  }

  /// A user's device becomes another's after the forget, and is registered so before it, or loses its user.
  @Test(arguments: ["other", nil])
  func deviceOfAForgottenUser_keepsOnlyWhatIsNewer_alsoAsAnothers(next: String?) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    for (number, order) in orders([], [0, 1, 2, 3]).enumerated() {
      let user = "user-\(number)"
      for step in order {
        let at = Self.start + Int64(step)
        var tagged = DeviceRegistration(device: "device-\(number)")
        switch step {
        case 0: _ = try bench.register(whole(number, of: user), at: at)
        case 1:
          tagged.tags = tag("earlier")
          _ = try bench.register(tagged, at: at)
        case 2: _ = try bench.forget(.user(user), at: at)
        default:
          tagged.user = next.map { .set($0) } ?? .remove
          tagged.tags = tag("later")
          _ = try bench.register(tagged, at: at)
        }
      }
      let record = try bench.dump().records.values.first { $0.id == "device-\(number)" }
      #expect(
        record?.user == next && record?.tags.map(\.name) == ["later"], "\(order): \(record?.tags.map(\.name) ?? [])")
      #expect(record?.token == nil && record?.startTokens == [] && record?.locale == nil, "\(order)")
      #expect(record?.osVersion == nil && record?.timeZone == nil, "\(order)")
    }
    try bench.expectConsistent("another's")
  }

  /// What another user's device had at the time of the forget is not the forgotten one's.
  @Test func deviceThatIsAnothersAtTheTime_isLeftAlone() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    _ = try bench.register(whole(1, of: "one"), at: Self.start)
    var other = whole(1, of: "other")
    other.tags = tag("later")
    _ = try bench.register(other, at: Self.start + 10)
    #expect(try bench.forget(.user("one"), at: Self.start + 20) == 0)
    let record = try bench.dump().records.values.first
    #expect(record?.user == "other" && record?.tags.count == 2 && record?.token != nil)
    // More devices than one page of them has.
    for number in 100..<350 {
      _ = try bench.register(whole(number % 200, of: "guest"), at: Self.start + 30 + Int64(number))
    }
    for number in 0..<200 {
      var next = DeviceRegistration(device: "device-\(number)")
      next.user = .set("somebody")
      _ = try bench.register(next, at: Self.start + 1_000)
    }
    #expect(try bench.forget(.user("guest"), at: Self.start + 900) == 200)
    #expect(try bench.dump().records.values.count { $0.token != nil } == 0)
    try bench.expectConsistent("many")
  }

  /// A forget of somebody who had no device then concerns nobody's: what is older than it counts, whoever has the device now.
  @Test func lateRegistrationOfAnothersTime_takesNothingAway() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var first = whole(1, of: "user")
    first.user = .keep
    _ = try bench.register(first, at: Self.start)
    #expect(try bench.forget(.user("user"), at: Self.start + 2) == 0)
    var login = DeviceRegistration(device: first.device)
    login.user = .set("user")
    _ = try bench.register(login, at: Self.start + 3)
    var late = DeviceRegistration(device: first.device)
    late.tags = tag("late")
    #expect(try bench.register(late, at: Self.start + 1) != .forgotten)
    let record = try bench.dump().records.values.first
    #expect(record?.user == "user" && record?.tags.count == 2 && record?.token != nil && record?.locale == "de")
    // Named by it, the user had the device then.
    late.user = .set("user")
    #expect(try bench.register(late, at: Self.start + 1) == .forgotten)
    #expect(try bench.dump().records.values.first?.tags == [])
  }

  /// A forget from a clock that is an hour ahead gives way to what comes now, and not to what came before it.
  @Test func forgetOfATimeToCome_refusesWhatIsOlder() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    let now = bench.loop.now.unixMilliseconds
    #expect(try bench.forget(.user("user"), at: now + 3_600_000) == 0)
    for (age, answer) in [(3_600_000, RegistrationAnswer.forgotten), (120_000, .forgotten), (1_000, .added)] {
      #expect(try bench.register(whole(age / 60_000, of: "user"), at: now - Int64(age)) == answer, "\(age) ms old")
    }
  }

  /// What a registration says of the device's user.
  private enum Naming: CaseIterable {
    case nobody, user, other, removal
  }

  /// Three registrations, and a forget of a user before, between or behind them: a step for each millisecond.
  private struct Plan {
    let namings: [Naming]
    let forget: Int

    /// Of the registrations.
    var times: [Int] { (0...namings.count).filter { $0 != forget } }

    func registration(_ device: String, at time: Int) -> DeviceRegistration {
      var registration = DeviceRegistration(device: device)
      switch namings[time < forget ? time : time - 1] {
      case .nobody: break
      case .user: registration.user = .set("user of \(device)")
      case .other: registration.user = .set("other")
      case .removal: registration.user = .remove
      }
      registration.tags = [.init(name: "tag-\(time)", change: .set(.flag(true)))]
      if time > 1 { registration.locale = .set("de-\(time)") }
      if time < 2 { registration.timeZone = .set("UTC-\(time)") }
      return registration
    }

    /// Whose the device was at the time of the forget, by those registrations that are known.
    private func owner(_ device: String, _ known: [Int]) -> String? {
      var owner: String?
      for time in known.sorted() where time < forget {
        switch registration(device, at: time).user {
        case .keep: break
        case .set(let name): owner = name
        case .remove: owner = nil
        }
      }
      return owner
    }

    /// What their times say. But once the forget is known, what was the user's by all that was known then is gone, whatever comes to light.
    func expected(_ device: String, _ order: [Int]) -> String {
      let isForgotten = order.indices.contains { index in
        order[...index].contains(forget) && owner(device, Array(order[...index])) == "user of \(device)"
      }
      var record = DeviceRecord(id: device, at: 0)
      for time in times where time > forget || !isForgotten {
        let registration = registration(device, at: time)
        switch registration.user {
        case .keep: break
        case .set(let name): record.user = name
        case .remove: record.user = nil
        }
        if case .set(let locale) = registration.locale { record.locale = locale }
        if case .set(let timeZone) = registration.timeZone { record.timeZone = timeZone }
        record.tags.append(.init(name: "tag-\(time)", value: .flag(true), at: nil))
      }
      return Plan.text(record.tags.isEmpty ? nil : record)
    }

    static func text(_ record: DeviceRecord?) -> String {
      guard let record else { return "none" }
      let fields = [record.user, record.locale, record.timeZone].map { $0 ?? "-" }
      return (fields + record.tags.map(\.name)).joined(separator: " ")
    }
  }

  /// All namings of three registrations, the forget at each place among them, stored in every order: each a device and a user of its own.
  @Test(arguments: 0..<4)
  func registrationsAndAForgetInEveryOrder_giveTheResultOfTheirTimes(forget: Int) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url, registries: 2)
    let names = Naming.allCases
    let plans = names.flatMap { a in names.flatMap { b in names.map { Plan(namings: [a, b, $0], forget: forget) } } }
    let orders = orders([], [0, 1, 2, 3])
    for place in 0..<4 {
      var left = plans.count * orders.count
      var failures: [DeviceRegistryFailure] = []
      func ended<Value>(_ result: Result<Value, DeviceRegistryFailure>) {
        left -= 1
        if case .failure(let failure) = result { failures.append(failure) }
      }
      for (number, plan) in plans.enumerated() {
        for (index, order) in orders.enumerated() {
          let (device, time) = ("d-\(number)-\(index)", order[place])
          let registry = bench.registries[(number + index + place) % 2]
          if time == forget {
            registry.forget(.user("user of \(device)"), at: Self.start + Int64(time), in: bench.scope, then: ended)
          } else {
            registry.register(
              plan.registration(device, at: time), at: Self.start + Int64(time), in: bench.scope, then: ended)
          }
        }
        if number % 8 == 7 { bench.turn() }
      }
      #expect(bench.turn { left == 0 } && failures.isEmpty, "\(failures.first.map { "\($0)" } ?? "not ended")")
    }
    let records = Dictionary(uniqueKeysWithValues: try bench.dump().records.values.map { ($0.id, $0) })
    var wrong: [String] = []
    for (number, plan) in plans.enumerated() {
      for (index, order) in orders.enumerated() {
        let device = "d-\(number)-\(index)"
        let (found, expected) = (Plan.text(records[device]), plan.expected(device, order))
        if found != expected { wrong.append("\(plan.namings) stored as \(order): \(found), not \(expected)") }
      }
    }
    #expect(wrong.isEmpty, "\(wrong.count) of \(plans.count * orders.count), the first: \(wrong.prefix(3))")
    try bench.expectConsistent("every order")
  }

  /// A forget takes several round trips, a registration one: what comes behind it overtakes it.
  @Test func registrationThatOvertakesTheForget_keepsNothingElse() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url, registries: 2)
    for number in 0..<100 { _ = try bench.register(whole(number, of: "user-\(number)"), at: Self.start) }
    var left = 200
    var failures: [DeviceRegistryFailure] = []
    func ended<Value>(_ result: Result<Value, DeviceRegistryFailure>) {
      left -= 1
      if case .failure(let failure) = result { failures.append(failure) }
    }
    for number in 0..<100 {
      bench.registries[0].forget(.user("user-\(number)"), at: Self.start + 1, in: bench.scope, then: ended)
      if number % 3 > 0 { bench.turn() }
      var tagged = DeviceRegistration(device: "device-\(number)")
      tagged.tags = tag("later")
      bench.registries[number % 2].register(tagged, at: Self.start + 2, in: bench.scope, then: ended)
      if number % 2 > 0 { bench.turn() }
    }
    #expect(bench.turn { left == 0 } && failures.isEmpty)
    let records = try bench.dump().records.values
    #expect(records.count == 100)
    for record in records { expectOnlyLater(record, "\(record.id)") }
    try bench.expectConsistent("overtaken")
  }
}
