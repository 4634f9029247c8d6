package import PushCore

/// Registrations by chance, of few devices, users, tokens and tags, so that they meet.
package struct RandomRegistrations {
  package var random: SeededRandom
  package var deviceCount = 12
  package var userCount = 4
  package var tokenCount = 10
  /// Times are so many milliseconds apart at most from `start`: on two days, and less than removals are remembered.
  package var start: Int64 = 1_796_040_000_000
  package var span: Int64 = 80_000_000

  package init(seed: UInt64) {
    random = SeededRandom(seed: seed)
  }

  package mutating func below(_ count: Int) -> Int { Int.random(in: 0..<count, using: &random) }
  package mutating func time() -> Int64 { start + Int64(below(200)) * (span / 200) }
  package mutating func device() -> String { "hwid-\(below(deviceCount))" }
  package mutating func user() -> String { "user-\(below(userCount))" }
  package mutating func token() -> [UInt8] { [0xAB, 0xCD, 0, UInt8(below(tokenCount))] }

  package mutating func registration() -> DeviceRegistration {
    var device = DeviceRegistration(device: device())
    let user = user()
    device.user = change(user)
    let token = token()
    device.token = change(token)
    let locale = ["en", "en-GB", "en-US", "de", "zh-Hant-TW"][below(5)]
    device.locale = change(locale)
    let version = OSVersion(major: 17 + UInt16(below(2)), minor: UInt16(below(3)), patch: UInt16(below(2)))
    device.osVersion = change(version)
    let zone = ["Europe/Rome", "UTC", "America/New_York"][below(3)]
    device.timeZone = change(zone)
    device.removesStartTokens = below(10) == 0
    if !device.removesStartTokens {
      for type in ["*", "RideAttributes", "Match"] where below(3) == 0 {
        device.startTokens.append(
          DeviceRegistration.StartToken(type: type, token: below(4) == 0 ? nil : [0x80] + self.token()))
      }
    }
    device.removesTags = below(12) == 0
    if !device.removesTags {
      for name in ["plan", "level", "subscriptions", "vip"] where below(3) == 0 {
        device.tags.append(DeviceRegistration.Tag(name: name, change: tagChange()))
      }
    }
    if device.hasIncrement { device.fingerprint = UInt32(below(1 << 30)) + 1 }
    return device
  }

  private mutating func change<Value>(_ value: Value) -> FieldChange<Value> {
    switch below(6) {
    case 0...2: .keep
    case 3: below(3) == 0 ? .remove : .keep
    default: .set(value)
    }
  }

  private mutating func tagChange() -> DeviceRegistration.Tag.Change {
    switch below(9) {
    case 0: .remove
    case 1: .increment(Double(below(5) - 2))
    case 2: .set(.flag(below(2) == 0))
    case 3, 4: .set(.number([0, 7, -1.5, 1e300, -4_503_599_627_370_497, 0.5][below(6)]))
    case 5: .set(.list(Array(["a", "b", "c", "gold"].shuffled(using: &random).prefix(below(4)))))
    default: .set(.text(["gold", "silver", "", "naïve"][below(4)]))
    }
  }
}
