import PushCore
import PushStores
import TestSupport
import Testing

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

  /// 48 devices take 32 tokens each from devices with records of 15 KiB: 22 MiB, and a reply has at most 16.
  @Test func tokensOfDevicesWithLargeRecords_changeTheirHolder() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    func devices(_ name: String) -> [DeviceRegistration] {
      (UInt8(0)..<48).map { number in
        var registration = DeviceRegistration(device: "\(name)-\(number)")
        registration.startTokens = (UInt8(0)..<32).map { .init(type: "T\($0)", token: [number, $0]) }
        return registration
      }
    }
    var old = devices("old")
    let text = String(repeating: "x", count: 250)
    for index in old.indices {
      old[index].tags = (0..<58).map { .init(name: "t\($0)", change: .set(.text(text))) }
    }
    #expect(register(old, at: DeviceBatchTests.at, bench).allSatisfy { $0 == .success(.added) })
    let answers = register(devices("new"), at: DeviceBatchTests.at + 1, bench)
    #expect(answers.allSatisfy { $0 == .success(.added) }, "\(answers.first.map { "\($0)" } ?? "none")")
    for record in try bench.dump().records.values {
      #expect(record.startTokens.count == (record.id.hasPrefix("new") ? 32 : 0), "\(record.id)")
    }
    try bench.expectConsistent("taken over")
  }
}
