import PushCore
import PushIO
import TestSupport
import Testing

@testable import PushStores

/// Registrations of one turn that are large together: each batch stays within what a script and a reply may have.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct DeviceBatchTests {
  private static let at: Int64 = 1_796_040_000_000

  /// Registers all of them in one turn.
  private func register(
    _ registrations: [DeviceRegistration], at: Int64, _ bench: DeviceRegistryBench
  ) -> [Result<RegistrationAnswer, DeviceRegistryFailure>] {
    var answers: [Result<RegistrationAnswer, DeviceRegistryFailure>] = []
    for registration in registrations {
      bench.registries[0].register(registration, at: at, in: bench.scope) { answers.append($0) }
    }
    #expect(bench.turn { answers.count == registrations.count })
    return answers
  }

  /// More new words than Lua can unpack at once, in one batch; and more unknown ones in one page.
  @Test func devicesWithTagsOfTheirOwn_areStoredAndRead() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    let registrations = (0..<100).map { number in
      var registration = DeviceRegistration(device: "d-\(number)")
      registration.tags = (0..<100).map { .init(name: "tag-\(number)-\($0)", change: .set(.flag(true))) }
      return registration
    }
    let answers = register(registrations, at: DeviceBatchTests.at, bench)
    #expect(answers.allSatisfy { $0 == .success(.added) }, "\(answers.first.map { "\($0)" } ?? "none")")
    try bench.addRegistry()
    let entries = try bench.wait { bench.registries[1].entries(of: .everyone, limit: 500, in: bench.scope, then: $0) }
    #expect(entries.count == 100 && entries.allSatisfy { $0.record.tags.count == 100 })
  }

  /// Devices with 32 push-to-start tokens each.
  private func devices(_ name: String, _ count: Int = 48) -> [DeviceRegistration] {
    (0..<count).map { number in
      var registration = DeviceRegistration(device: "\(name)-\(number)")
      registration.startTokens = (UInt8(0)..<32).map { .init(type: "T\($0)", token: [UInt8(number), $0]) }
      return registration
    }
  }

  /// Registers 48 devices with records of 15 KiB: for each of their tokens one, they are 22 MiB, and a reply has at most 16.
  private func registerLarge(_ bench: DeviceRegistryBench) {
    var old = devices("old")
    let text = String(repeating: "x", count: 250)
    for index in old.indices {
      old[index].tags = (0..<58).map { .init(name: "t\($0)", change: .set(.text(text))) }
    }
    #expect(register(old, at: DeviceBatchTests.at, bench).allSatisfy { $0 == .success(.added) })
  }

  @Test func tokensOfDevicesWithLargeRecords_changeTheirHolder() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    registerLarge(bench)
    let answers = register(devices("new"), at: DeviceBatchTests.at + 1, bench)
    #expect(answers.allSatisfy { $0 == .success(.added) }, "\(answers.first.map { "\($0)" } ?? "none")")
    for record in try bench.dump().records.values {
      #expect(record.startTokens.count == (record.id.hasPrefix("new") ? 32 : 0), "\(record.id)")
    }
    try bench.expectConsistent("taken over")
  }

  /// A registration that a forget cancels reads the holders of its tokens too.
  @Test func cancelledRegistrations_takeTheTokensOfDevicesWithLargeRecords() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    registerLarge(bench)
    for device in devices("new") { _ = try bench.forget(.device(device.device), at: DeviceBatchTests.at + 2) }
    let answers = register(devices("new"), at: DeviceBatchTests.at + 1, bench)
    #expect(answers.allSatisfy { $0 == .success(.forgotten) }, "\(answers.first.map { "\($0)" } ?? "none")")
    #expect(try bench.dump().records.values.allSatisfy { $0.startTokens.isEmpty })
    try bench.expectConsistent("cancelled")
  }

  /// One device holds all 32 tokens: its record is read once.
  @Test func recordOfTheHolderOfManyTokens_isSentOnce() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    registerLarge(bench)
    let transactions = devices("new", 2).map {
      DeviceTransaction(.id($0.device), .register($0, at: DeviceBatchTests.at + 1)) { _ in }
    }
    let reply = try bench.wait { then in
      bench.client.run(
        DeviceScript.find, keys: [bench.keys.tag, bench.keys.next], DeviceFindings.arguments(transactions), then: then)
    }
    func largeCount(_ reply: RedisReply) -> Int {
      switch reply {
      case .array(let parts): parts.reduce(0) { $0 + largeCount($1) }
      case .bulk(let bytes): bytes.count > 1_000 ? 1 : 0
      case .integer, .status, .error, .null: 0
      }
    }
    #expect(largeCount(reply) == 2)
  }

  /// Replies that wait for an app fill Redis' memory, and hold up the other apps.
  @Test func recordsThatAreReadAtATime_areBounded() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var left = 200
    for registration in devices("many", 200) {
      bench.registries[0].register(registration, at: DeviceBatchTests.at, in: bench.scope) { _ in left -= 1 }
    }
    let entry = bench.registries[0].entry(bench.scope)
    var most = 0
    let isDone = bench.turn {
      most = max(most, entry.recordsInFlight)
      return left == 0
    }
    #expect(isDone && entry.recordsInFlight == 0)
    #expect(1_024...1_536 ~= most, "\(most) records at a time")
  }
}
