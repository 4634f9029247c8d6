import PushCore
import TestSupport
import Testing

/// Registrations of some of a device's fields, in any order.
@Suite struct RegistrationOrderTests {
  private typealias Dated = (registration: DeviceRegistration, at: Int64)

  private func registration(_ change: (inout DeviceRegistration) -> Void) -> DeviceRegistration {
    var registration = DeviceRegistration(device: "d")
    change(&registration)
    return registration
  }

  /// Increments of the same time in one order: they are remembered as they came, and it does not matter. Owners are compared elsewhere: of
  /// a user's registrations in a row the first and the last are remembered.
  private func record(_ all: [Dated], onto record: DeviceRecord? = nil) -> DeviceRecord? {
    guard var result = plain(all, onto: record) else { return nil }
    for index in result.tags.indices {
      result.tags[index].increments.sort { ($0.at, $0.fingerprint) < ($1.at, $1.fingerprint) }
    }
    result.owners = []
    return result
  }

  private func plain(_ all: [Dated], onto record: DeviceRecord?) -> DeviceRecord? {
    all.reduce(record) { known, next in
      guard
        case .changed(let record, _) = DeviceChange.registering(
          next.registration, at: next.at, now: .max, onto: known, fingerprint: 1)
      else { return known }
      return record
    }
  }

  private func permutations(_ all: [Dated]) -> [[Dated]] {
    guard all.count > 1 else { return [all] }
    return all.indices.flatMap { index in
      var rest = all
      let first = rest.remove(at: index)
      return permutations(rest).map { [first] + $0 }
    }
  }

  /// As an app does it at its start: three calls, one after another, that two workers store in another order.
  @Test func fieldsOfAnEarlierRegistration_areNotDropped() {
    let all: [Dated] = [
      (registration { $0.token = .set([1]) }, 100),
      (registration { $0.tags = [.init(name: "plan", change: .set(.text("gold")))] }, 101),
      (registration { $0.startTokens = [.init(type: "*", token: [2])] }, 102),
    ]
    for order in permutations(all) {
      let record = record(order)
      #expect(record?.at == 102)
      #expect(record?.token?.bytes == [1], "no token: \(order.map(\.at))")
      #expect(record?.tags.map(\.name) == ["plan"], "no tags: \(order.map(\.at))")
      #expect(record?.startToken(for: "*")?.bytes == [2], "no start token: \(order.map(\.at))")
    }
  }

  @Test func removals_countWithTheirTime() {
    let set = registration {
      $0.user = .set("u")
      $0.locale = .set("de")
      $0.token = .set([1])
      $0.startTokens = [.init(type: "*", token: [2]), .init(type: "Ride", token: [3])]
      $0.tags = [.init(name: "a", change: .set(.flag(true))), .init(name: "b", change: .set(.flag(true)))]
    }
    let some = registration {
      $0.user = .remove
      $0.token = .remove
      $0.startTokens = [.init(type: "Ride", token: nil)]
      $0.tags = [.init(name: "b", change: .remove)]
    }
    let all = registration {
      $0.removesTags = true
      $0.removesStartTokens = true
    }
    for order in permutations([(set, 100), (some, 101)]) {
      let record = record(order)
      #expect(record?.user == nil && record?.locale == "de" && record?.token == nil, "\(order.map(\.at))")
      #expect(record?.startTokens.map(\.type) == ["*"] && record?.tags.map(\.name) == ["a"], "\(order.map(\.at))")
    }
    for order in permutations([(set, 100), (all, 101)]) {
      let record = record(order)
      #expect(record?.startTokens == [] && record?.tags == [] && record?.user == "u", "\(order.map(\.at))")
    }
  }

  /// An increment counts once, if the tag was not set later: also where it comes last, and where it comes twice.
  @Test func increments_countOnceInAnyOrder() {
    func increment(_ number: Int) -> DeviceRegistration {
      registration {
        $0.tags = [.init(name: "n", change: .increment(Double(number)))]
        $0.fingerprint = UInt32(number)
      }
    }
    let set = registration { $0.tags = [.init(name: "n", change: .set(.number(10)))] }
    for order in permutations([(increment(1), 99), (set, 100), (increment(2), 100), (increment(4), 101)]) {
      let once = record(order)
      #expect(once?.tags.map(\.value) == [.number(16)], "\(order.map(\.at))")
      #expect(record(order.reversed(), onto: once) == once, "\(order.map(\.at))")
    }
  }

  @Test func changesOfTheSameTime_giveOneResult() {
    let values = [
      registration {
        $0.user = .set("a")
        $0.token = .set([9])
        $0.tags = [.init(name: "t", change: .set(.text("z")))]
      },
      registration {
        $0.user = .set("b")
        $0.token = .set([1])
        $0.tags = [.init(name: "t", change: .set(.number(5)))]
      },
    ]
    for order in permutations(values.map { (registration: $0, at: 100) }) {
      let record = record(order)
      #expect(record?.user == "b" && record?.token?.bytes == [9] && record?.tags.map(\.value) == [.text("z")])
    }
  }

  private func change<Value>(_ value: Value, _ source: inout RandomRegistrations) -> FieldChange<Value> {
    switch source.below(5) {
    case 0...1: .keep
    case 2: .remove
    default: .set(value)
    }
  }

  /// Tags that are incremented are numbers, and now and then a text.
  private func partial(_ source: inout RandomRegistrations) -> DeviceRegistration {
    var registration = source.registration()
    registration.device = "d"
    registration.tags.removeAll { if case .increment = $0.change { true } else { false } }
    if source.below(2) == 0, !registration.removesTags {
      let number = Double(source.below(9) - 4)
      let change: DeviceRegistration.Tag.Change =
        switch source.below(9) {
        case 0...1: .remove
        case 2...3: .set(.number(number))
        case 4: .set(.text("none"))
        default: .increment(number)
        }
      registration.tags.append(.init(name: "count", change: change))
      registration.fingerprint = UInt32(source.below(1 << 30)) + 1
    }
    return registration
  }

  /// Over all orders of up to four, with equal times among them, each also with one or all delivered again.
  @Test(arguments: UInt64(0)..<50)
  func everyOrder_givesTheSameRecord(seed: UInt64) throws {
    var source = RandomRegistrations(seed: seed)
    for round in 0..<12 {
      let known: [Dated] = (0..<source.below(3)).map { _ in (partial(&source), source.start + Int64(source.below(3))) }
      let all: [Dated] = (0..<2 + source.below(3)).map { _ in
        (partial(&source), source.start + Int64(source.below(6)))
      }
      let before = record(known)
      var model = RegistryModel()
      for dated in known + all { model.register(dated.registration, at: dated.at) }
      let expected = try #require(record(all, onto: before))
      #expect(expected.modelState == model.devices["d"]?.state, "seed \(seed), round \(round)")
      for order in permutations(all) {
        let found = record(order, onto: before)
        #expect(found == expected, "seed \(seed), round \(round): \(order.map(\.at))")
        let again = record([order[source.below(order.count)]], onto: found)
        #expect(again == expected, "seed \(seed), round \(round): delivered again: \(order.map(\.at))")
        #expect(record(known + order, onto: again) == expected, "seed \(seed), round \(round): all again")
      }
    }
  }

  /// A forget of its own time among the registrations, at any place: what is later stays, and nothing else does.
  @Test(arguments: UInt64(100)..<150)
  func forgetInEveryOrder_givesTheSameRecord(seed: UInt64) throws {
    var source = RandomRegistrations(seed: seed)
    for round in 0..<12 {
      let all: [Dated] = (0..<3).map { _ in (partial(&source), source.start + Int64(source.below(6))) }
      let at = source.start + Int64(source.below(6))
      var model = RegistryModel()
      for dated in all { model.register(dated.registration, at: dated.at) }
      model.forget(device: "d", at: at)
      let expected = record(all.filter { $0.at > at })
      #expect(expected?.modelState == model.devices["d"]?.state, "seed \(seed), round \(round)")
      for order in permutations(all) {
        for place in 0...order.count {
          let known = record(Array(order[..<place]))
          let left = known.flatMap { DeviceChange.forgetting($0, at: at, now: .max, fingerprint: 1) }
          // Its mark keeps the earlier ones out.
          let found = record(order[place...].filter { $0.at > at }, onto: left)
          #expect(
            found == expected, "seed \(seed), round \(round): \(order.map(\.at)), forgotten at \(at) after \(place)")
        }
      }
    }
  }

  /// Who had the device at each time is that of the times, whatever came first.
  @Test func ownersInEveryOrder_areThoseOfTheirTimes() throws {
    let names: [FieldChange<String>] = [.keep, .set("a"), .set("b"), .remove]
    for changes in names.flatMap({ a in names.flatMap { b in names.map { [a, b, $0] } } }) {
      let all: [Dated] = changes.enumerated().map { index, change -> Dated in
        let partial = registration {
          $0.user = change
          $0.tags = [.init(name: "\(index)", change: .set(.flag(true)))]
        }
        return (partial, 100 + 2 * Int64(index))
      }
      for order in permutations(all) {
        let record = try #require(plain(order + [order[0]], onto: nil))
        var owner: String?
        for time in Int64(100)...106 {
          for dated in all where dated.at == time {
            switch dated.registration.user {
            case .keep: break
            case .remove: owner = nil
            case .set(let name): owner = name
            }
          }
          let found = record.owner(at: time, now: time)?.user ?? 0
          #expect(
            found == DeviceRecord.Owner(since: 0, user: owner).user, "\(changes), \(order.map(\.at)) at \(time)")
        }
      }
    }
  }

  @Test func owners_areForgottenAfterADay() throws {
    let day: Int64 = 86_400_000
    func owned(_ all: [(user: String, at: Int64)], onto record: DeviceRecord? = nil) throws -> DeviceRecord {
      let named: [Dated] = all.map { next in (registration { $0.user = .set(next.user) }, next.at) }
      return try #require(plain(named, onto: record))
    }
    let record = try owned([("a", 100), ("b", 200), ("b", 300)])
    #expect(record.owners.map(\.since) == [100, 200] && record.ownedUntil(by: "a", at: 150) == 200)
    let later = try owned([("b", 201 + day)], onto: record)
    #expect(later.owners == [.init(since: .min, user: "b")])
    // Registered as a whole again, it takes no bytes.
    let again = try owned([("b", 100), ("b", 200)])
    #expect(again.owners == [.init(since: .min, user: "b")])
    // The latest ones are kept.
    let many = try owned((0..<40).map { ("\($0)", 100 + Int64($0)) })
    #expect(many.owners.map(\.since) == Array(124...139))
  }

  /// Pages that were made for the forgotten user are not for who has the device next.
  @Test func forgottenUser_takesTheFingerprintAlong() throws {
    let all: [Dated] = [(registration { $0.user = .set("u") }, 100), (registration { $0.locale = .set("de") }, 102)]
    let known = try #require(record(all))
    let left = try #require(DeviceChange.forgetting(known, at: 101, now: .max, fingerprint: 7))
    #expect(left.user == nil && left.locale == "de" && left.fingerprint == 7)
    #expect(DeviceChange.forgetting(known, at: 99, now: .max, fingerprint: 7) == known)
    #expect(DeviceChange.forgetting(known, at: 102, now: .max, fingerprint: 7) == nil)
  }

  @Test func removals_areForgottenAfterADay() {
    let removal = registration {
      $0.user = .remove
      $0.tags = [.init(name: "a", change: .remove)]
      $0.startTokens = [.init(type: "*", token: nil)]
    }
    let day: Int64 = 86_400_000
    let other = registration { $0.locale = .set("de") }
    let kept = record([(removal, 100), (other, 100 + day)])
    #expect(kept?.removedTags.count == 1 && kept?.removedStartTokens.count == 1 && kept?.times.user == 100)
    let forgotten = record([(removal, 100), (other, 101 + day)])
    #expect(forgotten?.removedTags == [] && forgotten?.removedStartTokens == [] && forgotten?.times.user == nil)
    let many = registration { device in
      device.tags = (0..<100).map { .init(name: "a\($0)", change: .remove) }
    }
    let most = record([(removal, 100), (many, 101)])
    #expect(most?.removedTags.count == 100 && most?.removedTags.contains { $0.name == "a" } == false)
  }
}
