import PushCore
import TestSupport
import Testing

/// What registrations, 410s and forgets make of devices.
@Suite struct DeviceChangeTests {
  private func registration(_ change: (inout DeviceRegistration) -> Void = { _ in }) -> DeviceRegistration {
    var registration = DeviceRegistration(device: "d")
    change(&registration)
    return registration
  }

  private func record(
    _ registration: DeviceRegistration, at: Int64 = 100, onto record: DeviceRecord? = nil,
    fingerprint: UInt32 = 1
  ) throws -> DeviceRecord {
    guard
      case .changed(let next, _) = DeviceChange.registering(
        registration, at: at, now: .max, onto: record, fingerprint: fingerprint)
    else { throw TestFailure("nothing changed") }
    return next
  }

  @Test func newerWinsAndOlderIsIgnored() throws {
    let first = try record(registration { $0.user = .set("u") }, at: 100)
    var late = try record(registration { $0.user = .set("v") }, at: 99, onto: first)
    #expect(late.owners.map(\.since) == [99, 100])
    late.owners = []
    #expect(late == first)
    #expect(try record(registration(), at: 101, onto: first).user == "u")
    #expect(try record(registration { $0.user = .remove }, at: 100, onto: first).user == nil)
  }

  @Test func fingerprint_isDrawnWithTheRecordAndStays() throws {
    let first = try record(registration(), at: 100, fingerprint: 7)
    #expect(first.fingerprint == 7)
    #expect(try record(registration { $0.user = .set("u") }, at: 101, onto: first, fingerprint: 8).fingerprint == 7)
    var old = DeviceRecord(id: "d", at: 100)
    old.fingerprint = 0
    #expect(try record(registration(), at: 101, onto: old, fingerprint: 8).fingerprint == 0)
  }

  /// Pages that were made for one person must not reach the next one who has the phone.
  @Test func fingerprint_isAnotherPersons() throws {
    let bob = try record(registration { $0.user = .set("bob") }, at: 100, fingerprint: 7)
    #expect(try record(registration { $0.user = .set("bob") }, at: 101, onto: bob, fingerprint: 8).fingerprint == 7)
    #expect(try record(registration { $0.user = .set("alice") }, at: 101, onto: bob, fingerprint: 8).fingerprint == 8)
    let nobody = try record(registration { $0.user = .remove }, at: 101, onto: bob, fingerprint: 8)
    #expect(nobody.user == nil && nobody.fingerprint == 8)
    let zoe = try record(registration { $0.user = .set("zo\u{EB}") }, at: 102, onto: bob, fingerprint: 9)
    let other = try record(registration { $0.user = .set("zoe\u{308}") }, at: 103, onto: zoe, fingerprint: 10)
    #expect(zoe.fingerprint == 9 && other.fingerprint == 10, "equal only canonically: another person")
    // It comes late, and changes nothing.
    #expect(try record(registration { $0.user = .set("alice") }, at: 99, onto: bob, fingerprint: 8).fingerprint == 7)
  }

  @Test func tagsMergeByName() throws {
    let first = try record(
      registration {
        $0.tags = [.init(name: "plan", change: .set(.text("gold"))), .init(name: "level", change: .set(.number(7)))]
      })
    let next = try record(
      registration {
        $0.tags = [.init(name: "plan", change: .remove), .init(name: "vip", change: .set(.flag(true)))]
      }, onto: first)
    #expect(
      next.tags == [.init(name: "level", value: .number(7), at: 100), .init(name: "vip", value: .flag(true), at: 100)])
    #expect(try record(registration { $0.removesTags = true }, at: 101, onto: next).tags.isEmpty)
    let many = registration { device in
      device.tags = (0..<99).map { .init(name: "t\($0)", change: .set(.flag(true))) }
    }
    guard case .refused(let error) = DeviceChange.registering(many, at: 100, now: .max, onto: next, fingerprint: 1)
    else {
      throw TestFailure("101 tags were taken")
    }
    #expect(error.detail == "tags: must leave the device at most 100 tags, not 101")
  }

  /// Several registrations of one time, all delivered again.
  @Test func incrementsOfOneTimeAreNotRepeated() throws {
    let all = (1...3).map { number in
      registration {
        $0.tags = [.init(name: "n", change: .increment(Double(number)))]
        $0.fingerprint = UInt32(number)
      }
    }
    var next: DeviceRecord?
    for increment in all + all + all.reversed() { next = try record(increment, at: 100, onto: next) }
    #expect(next?.tags.map(\.value) == [.number(6)] && next?.tags[0].at == nil)
    let kept = try #require(next)
    let (bytes, words) = kept.encoded(DeviceWords())
    var table = DeviceWords()
    for (number, word) in words { table.learned(number, word) }
    #expect(try DeviceRecord.decoded(bytes, table).record == kept)
    let dayLater = try record(registration(), at: 101 + 86_400_000, onto: kept)
    #expect(dayLater.tags[0].increments.isEmpty && dayLater.times.increments == 100)
    #expect(try record(all[0], at: 99, onto: dayLater).tags[0].value == .number(6))
    for number in 4...300 {
      let increment = registration {
        $0.tags = [.init(name: "n", change: .increment(1))]
        $0.fingerprint = UInt32(number)
      }
      next = try record(increment, at: 100, onto: next)
    }
    #expect(next?.tags[0].increments.count == 256 && next?.tags[0].increments.last?.fingerprint == 257)
    // Once one is forgotten, another of its time may be that one, delivered again.
    let full = try #require(next)
    #expect(full.tags[0].value == .number(6 + 254))
    for increment in all { next = try record(increment, at: 100, onto: next) }
    #expect(next?.tags[0].value == full.tags[0].value)
  }

  @Test func theMessagesIDMakesTwoRegistrationsOfTheSameBytes() throws {
    let bytes = Array(
      #"{"kind":"device","at":1796000000000,"app":"com.example.app","device":"d","tags":{"n":{"increment":1}}}"#.utf8)
    func fingerprint(_ id: String) throws -> UInt32 {
      let parsed = try RegistrationParser.parse(bytes, messageID: Array(id.utf8), now: 1_796_000_000_000)
      guard case .device(let device) = parsed.subject else { throw TestFailure("no device") }
      return device.fingerprint
    }
    #expect(try fingerprint("a") == fingerprint("a") && fingerprint("a") != fingerprint("b"))
  }

  /// A registration that is delivered twice increments once.
  @Test func incrementsAreNotRepeated() throws {
    let increment = registration {
      $0.tags = [.init(name: "n", change: .increment(2))]
      $0.fingerprint = 7
    }
    var next = try record(increment, at: 100)
    next = try record(increment, at: 100, onto: next)
    #expect(next.tags.map(\.value) == [.number(2)])
    var other = increment
    other.fingerprint = 8
    next = try record(other, at: 100, onto: next)
    next = try record(other, at: 101, onto: next)
    #expect(next.tags.map(\.value) == [.number(6)])
  }

  /// A registration between a text and an increment may come after both.
  @Test func incrementOfText_countsOnceTheTagIsANumber() throws {
    func set(_ value: TagValue) -> DeviceRegistration {
      registration { $0.tags = [.init(name: "n", change: .set(value))] }
    }
    let increment = registration { $0.tags = [.init(name: "n", change: .increment(2))] }
    let all = [(set(.text("none")), Int64(100)), (set(.number(1)), 101), (increment, 102)]
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
      var next: DeviceRecord?
      for index in order { next = try record(all[index].0, at: all[index].1, onto: next) }
      #expect(next?.tags.map(\.value) == [.number(3)], "\(order)")
    }
    let text = try record(increment, at: 102, onto: try record(set(.text("none")), at: 100))
    #expect(text == (try record(set(.text("none")), at: 100, onto: try record(increment, at: 102))))
    #expect(text.tags.map(\.value) == [.text("none")])
  }

  @Test func aTokenBelongsToWhoeverRegisteredItLast() throws {
    var holder = DeviceRecord(id: "other", at: 50)
    holder.token = .init(bytes: [1], at: 50)
    let claim = registration { $0.token = .set([1]) }
    guard
      case .changed(let winner, let losers) = DeviceChange.registering(
        claim, at: 100, now: .max, onto: nil, holders: [holder], fingerprint: 1)
    else { throw TestFailure("refused") }
    #expect(winner.token?.bytes == [1] && losers.map(\.token) == [nil] && losers.map(\.at) == [50])
    holder.token?.at = 150
    guard
      case .changed(let late, []) = DeviceChange.registering(
        claim, at: 100, now: .max, onto: nil, holders: [holder], fingerprint: 1)
    else {
      throw TestFailure("the newer one lost")
    }
    #expect(late.token == nil && late.at == 100)
  }

  /// The app's hardware id changed, and maybe its user too: one phone, two devices.
  @Test func startTokenOfTwoDevices_belongsToTheNewer() throws {
    let both = registration { $0.startTokens = [.init(type: "*", token: [2]), .init(type: "Ride", token: [2])] }
    let old = try record(both, at: 100)
    var claim = registration {
      $0.user = .set("another")
      $0.startTokens = [.init(type: "Ride", token: [2])]
    }
    claim.device = "e"
    guard
      case .changed(let newer, let losers) = DeviceChange.registering(
        claim, at: 101, now: .max, onto: nil, holders: [old], fingerprint: 1)
    else { throw TestFailure("refused") }
    #expect(newer.startToken(for: "Ride")?.bytes == [2])
    #expect(losers.map(\.startTokens) == [[]], "the activity starts twice on one phone")
    guard
      case .changed(let late, []) = DeviceChange.registering(
        claim, at: 99, now: .max, onto: nil, holders: [old], fingerprint: 1)
    else { throw TestFailure("the newer device lost its token") }
    #expect(late.startTokens.isEmpty)
    // Both in one millisecond: the larger id has it, whichever comes first.
    guard
      case .changed(let larger, let smaller) = DeviceChange.registering(
        claim, at: 100, now: .max, onto: nil, holders: [old], fingerprint: 1)
    else { throw TestFailure("refused") }
    #expect(larger.startTokens.count == 1 && smaller.map(\.startTokens) == [[]])
  }

  @Test func aTokenThatIsGoneComesBackOnlyWithALaterRegistration() throws {
    let claim = registration {
      $0.token = .set([1])
      $0.startTokens = [.init(type: "*", token: [2])]
    }
    let first = try record(claim, at: 100)
    #expect(DeviceChange.losing([1], at: 99, now: .max, from: first) == nil)
    #expect(DeviceChange.losing([3], at: 200, now: .max, from: first) == nil)
    let lost = try #require(DeviceChange.losing([1], at: 200, now: .max, from: first))
    #expect(lost.token == nil && lost.startTokens.count == 1 && lost.at == 100)
    #expect(try record(claim, at: 200, onto: lost).token == nil)
    #expect(try record(claim, at: 201, onto: lost).token?.at == 201)
    // Another token was never called gone.
    #expect(try record(registration { $0.token = .set([9]) }, at: 150, onto: lost).token?.bytes == [9])
    let without = try #require(DeviceChange.losing([2], at: 200, now: .max, from: lost))
    #expect(without.startTokens.isEmpty && without.goneTokens.count == 2)
    let revived = try record(claim, at: 300, onto: without)
    #expect(revived.startTokens.count == 1 && revived.goneTokens.isEmpty)
  }

  /// The clock of an app's server was ahead: what comes now counts all the same, and the device can be forgotten.
  @Test func aTimeThatIsYetToComeGivesWayToWhatComesNow() throws {
    let ahead = try record(registration { $0.token = .set([1]) }, at: 100_000)
    func token(_ at: Int64, now: Int64) -> UInt8? {
      let outcome = DeviceChange.registering(
        registration { $0.token = .set([2]) }, at: at, now: now, onto: ahead, fingerprint: 1)
      guard case .changed(let next, _) = outcome else { return nil }
      #expect(next.at == next.token?.at)
      return next.token?.bytes[0]
    }
    #expect(token(99_999, now: 100_000) == 1)
    #expect(token(99_998, now: 99_997) == 1, "clocks differ by less than a minute")
    #expect(token(500, now: 500) == 2, "it is deaf")
    #expect(token(30_500, now: 500) == 2, "its own clock may be ahead, by less than a minute")
    #expect(DeviceChange.losing([1], at: 500, now: 100_000, from: ahead) == nil)
    #expect(DeviceChange.losing([1], at: 500, now: 500, from: ahead)?.token == nil)
    #expect(DeviceChange.forgetting(ahead, at: 500, now: 100_000, fingerprint: 2) == ahead)
    #expect(DeviceChange.forgetting(ahead, at: 500, now: 500, fingerprint: 2) == nil)
    #expect(DeviceChange.forgetting(ahead, at: 30_500, now: 500, fingerprint: 2) == nil)
    var other = registration { $0.token = .set([1]) }
    other.device = "other"
    guard
      case .changed(let winner, let losers) = DeviceChange.registering(
        other, at: 500, now: 500, onto: nil, holders: [ahead], fingerprint: 1)
    else { throw TestFailure("refused") }
    #expect(winner.token?.at == 500 && losers.count == 1)
  }

  @Test func membershipsAreSetsOfTheirOwn() throws {
    let device = try record(
      registration {
        $0.locale = .set("zh-Hant-TW")
        $0.osVersion = .set(OSVersion(major: 18))
        $0.tags = [.init(name: "level", change: .set(.number(1))), .init(name: "l", change: .set(.list([])))]
      }, at: 86_400_000 * 3 - 1)
    var expected: Set<DeviceSet> = [
      .everyone, .id("d"), .seen(day: 2), .locale("zh"), .locale("zh-hant"), .locale("zh-hant-tw"),
      .osVersion(OSVersion(major: 18)), .tagExists("level"), .tagIsNumber("level"), .tagExists("l"),
      .tagBit("level", 63),
    ]
    // The exponent of 1, and the sign turned over.
    for bit in UInt8(52)...61 { expected.insert(.tagBit("level", bit)) }
    #expect(Set(device.memberships) == expected)
    #expect(device.memberships.count == Set(device.memberships).count)
    #expect(DeviceRecord.day(of: -1) == -1 && DeviceRecord.day(of: 0) == 0)
  }

  /// Against the naive model: records, memberships and what changes of them.
  @Test(arguments: UInt64(0)..<40)
  func everyHistoryEndsAsTheModelSays(seed: UInt64) throws {
    var source = RandomRegistrations(seed: seed)
    var model = RegistryModel()
    var records: [String: DeviceRecord] = [:]
    var givenUp: [DeviceSet: (at: Int64, device: String)] = [:]
    func giveUp(_ tokens: [DeviceChange.HeldToken], by device: String) {
      for token in tokens where givenUp[token.set].map({ $0.at < token.at }) ?? true {
        givenUp[token.set] = (token.at, device)
      }
    }
    var sets: [DeviceSetName: Set<String>] = [:]
    func store(_ id: String, _ next: DeviceRecord?) {
      let changes = DeviceSetChanges(from: records[id]?.memberships ?? [], to: next?.memberships ?? [])
      for name in changes.removed {
        #expect(sets[name]?.remove(id) != nil, "it leaves a set that it is not in")
        if sets[name]?.isEmpty == true { sets[name] = nil }
      }
      for name in changes.added { #expect(sets[name, default: []].insert(id).inserted, "it enters a set twice") }
      records[id] = next
    }
    for _ in 0..<300 {
      let at = source.time()
      if source.below(5) == 0, let id = records.keys.sorted().randomElement(using: &source.random) {
        let token = source.below(2) == 0 ? source.token() : [0x80] + source.token()
        model.lose(token, at: at, device: id)
        if let next = records[id].flatMap({ DeviceChange.losing(token, at: at, now: .max, from: $0) }) {
          giveUp(DeviceChange.givenUp(from: records[id], to: next), by: id)
          store(id, next)
        }
        continue
      }
      let registration = source.registration()
      model.register(registration, at: at)
      let tokens = registration.tokens
      let holders = records.values.filter { record in
        record.id != registration.device && tokens.contains { record.hasToken(of: $0) }
      }
      switch DeviceChange.registering(
        registration, at: at, now: .max, onto: records[registration.device], holders: holders,
        outdated: Set(tokens.filter { givenUp[$0].map { $0.at >= at && $0.device != registration.device } ?? false }),
        fingerprint: 1)
      {
      case .refused: break
      case .changed(let next, let losers):
        let others = holders.map { holder in losers.first { $0.id == holder.id } ?? holder }
        giveUp(
          DeviceChange.givenUp(
            tokens.map { .init(set: $0, at: at) }, from: records[registration.device], to: next, others: others),
          by: registration.device)
        for loser in losers { store(loser.id, loser) }
        store(registration.device, next)
      }
    }
    #expect(records.count == model.devices.count && records.count > 3)
    for (id, record) in records { #expect(record.modelState == model.devices[id]?.state, "\(id)") }
    let expected = Dictionary(uniqueKeysWithValues: model.sets.map { (DeviceSetName($0.key), $0.value) })
    #expect(sets == expected)
  }
}
