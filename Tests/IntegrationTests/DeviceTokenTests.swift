import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// A token that two devices register, and that the later one gives up: in a real Redis, delivered in every order.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct DeviceTokenTests {
  private static let start: Int64 = 1_790_000_000_000

  /// What happens, at the time of its raw value.
  private enum Event: Int64, CaseIterable {
    case registersAtOther = 10
    case registers = 20
    case registersAtOtherMeanwhile = 25
    case rotates = 30
    case logsOut = 40
    case isForgotten = 50
    case userIsForgotten = 51
  }

  private static let givesUp: [Event] = [.rotates, .logsOut, .isForgotten, .userIsForgotten]

  private func orders(_ begun: [Event], _ rest: [Event]) -> [[Event]] {
    rest.isEmpty ? [begun] : rest.flatMap { next in orders(begun + [next], rest.filter { $0 != next }) }
  }

  private func token(_ number: Int, _ part: UInt8) -> [UInt8] { [part, UInt8(number >> 8), UInt8(number & 0xFF)] }

  private func registration(_ device: String, _ user: String, _ token: [UInt8]?, _ start: [UInt8]?)
    -> DeviceRegistration
  {
    var registration = DeviceRegistration(device: device)
    registration.user = token == nil ? .remove : .set(user)
    registration.token = token.map { .set($0) } ?? .remove
    registration.startTokens = [
      .init(type: "*", token: start), .init(type: "Ride", token: start),
    ]
    return registration
  }

  private func play(_ event: Event, _ number: Int, _ bench: DeviceRegistryBench) throws {
    let at = Self.start + event.rawValue
    let (device, user) = ("b-\(number)", "user-b-\(number)")
    switch event {
    case .registersAtOther, .registersAtOtherMeanwhile:
      let own = registration("a-\(number)", "user-a-\(number)", token(number, 1), token(number, 2))
      _ = try bench.register(own, at: at)
    case .registers:
      _ = try bench.register(registration(device, user, token(number, 1), token(number, 2)), at: at)
    case .rotates: _ = try bench.register(registration(device, user, token(number, 3), token(number, 4)), at: at)
    case .logsOut: _ = try bench.register(registration(device, user, nil, nil), at: at)
    case .isForgotten: _ = try bench.forget(.device(device), at: at)
    case .userIsForgotten: _ = try bench.forget(.user(user), at: at)
    }
  }

  /// Each order of each choice of what gives the token up; the token is that of the device that registered it last, or nobody's.
  @Test(arguments: [true, false])
  func tokenThatWasGivenUp_doesNotGoBack(hasOlder: Bool) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var number = 0
    for choice in 1..<(1 << Self.givesUp.count) {
      let ends = Self.givesUp.indices.filter { choice >> $0 & 1 == 1 }.map { Self.givesUp[$0] }
      if ends.count > 2 { continue }
      let events = [hasOlder ? .registersAtOther : .registersAtOtherMeanwhile, .registers] + ends
      var expected: Set<String>?
      for order in orders([], events) {
        for event in order { try play(event, number, bench) }
        defer { number += 1 }
        let records = try bench.wait {
          bench.registries[0].entries(of: .token(token(number, 1)), limit: 9, in: bench.scope, then: $0)
        }
        let starts = try bench.wait {
          bench.registries[0].entries(of: .startToken(token(number, 2)), limit: 9, in: bench.scope, then: $0)
        }
        let holders = Set(
          records.map { String($0.record.id.prefix(1)) } + starts.map { String($0.record.id.prefix(1)) })
        #expect(holders == (hasOlder ? [] : ["a"]), "\(order)")
        // Everything else is the same in each order too; but whose device it was is not known before the logout is.
        if ends.contains(.logsOut), ends.contains(.userIsForgotten) { continue }
        let states = try Set(
          ["a", "b"].flatMap { id in
            try bench.wait {
              bench.registries[0].entries(of: .id("\(id)-\(number)"), limit: 1, in: bench.scope, then: $0)
            }.map { "\(id) \($0.record.at) \($0.record.token?.at ?? 0) \($0.record.startTokens.map(\.token.at))" }
          })
        #expect(states == expected ?? states, "\(order)")
        expected = states
      }
    }
    try bench.expectConsistent("given up")
  }

  /// Two workers store them at the same time.
  @Test(arguments: UInt64(1)..<5)
  func tokenThatWasGivenUp_doesNotGoBackAtTwoWorkers(seed: UInt64) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url, registries: 3)
    var random = SeededRandom(seed: seed)
    var left = 0
    var failures: [DeviceRegistryFailure] = []
    func ended<Value>(_ result: Result<Value, DeviceRegistryFailure>) {
      left -= 1
      if case .failure(let failure) = result { failures.append(failure) }
    }
    for number in 0..<200 {
      let (device, user) = ("b-\(number)", "user-b-\(number)")
      var all: [(registration: DeviceRegistration, at: Int64)] = [
        (registration("a-\(number)", "user-a-\(number)", token(number, 1), token(number, 2)), 10),
        (registration(device, user, token(number, 1), token(number, 2)), 20),
      ]
      if number % 2 == 0 { all.append((registration(device, user, token(number, 3), token(number, 4)), 30)) }
      all.shuffle(using: &random)
      for (index, next) in all.enumerated() {
        left += 1
        let registry = bench.registries[(number + index) % 3]
        registry.register(next.registration, at: Self.start + next.at, in: bench.scope, then: ended)
        if Int.random(in: 0..<4, using: &random) == 0 { bench.turn() }
      }
      if number % 2 == 1 {
        left += 1
        bench.registries[number % 3].forget(.device(device), at: Self.start + 50, in: bench.scope, then: ended)
      }
      if number % 7 == 0 { bench.turn() }
    }
    #expect(bench.turn { left == 0 } && failures.isEmpty)
    let records = try bench.dump().records.values
    let taken = records.filter { $0.id.hasPrefix("a-") && ($0.token != nil || !$0.startTokens.isEmpty) }
    #expect(taken.map(\.id) == [], "they have a token that a later device gave up")
    try bench.expectConsistent("seed \(seed)")
  }

  /// Marks cost memory only where a token is given up, and end with it.
  @Test func marks_areOfTokensThatWereGivenUp() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    func marks() throws -> [String] {
      guard case .array(let keys) = try bench.redis("KEYS", bench.keys.tag + "forgotten:*") else { return ["?"] }
      return keys.compactMap(\.text)
    }
    for number in 0..<20 {
      try play(.registersAtOther, number, bench)
      try play(.registers, number, bench)
      try play(.registers, number, bench)
    }
    #expect(try marks() == [])
    try play(.rotates, 0, bench)
    let both = try marks()
    #expect(both.count == 2, "the alert token's, and the start token's")
    for mark in both {
      let (bytes, seconds) = (try bench.redis("MEMORY", "USAGE", mark), try bench.redis("TTL", mark))
      guard case .integer(let bytes) = bytes, case .integer(let seconds) = seconds else { throw TestFailure("no mark") }
      #expect(bytes < 256 && 86_000...86_400 ~= seconds, "\(bytes) bytes for \(seconds) s")
    }
  }
}
