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
