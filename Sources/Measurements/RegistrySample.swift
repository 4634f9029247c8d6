import PushCore

/// Registrations of many devices, as an app's server writes them.
struct RegistrySample {
  let devices: Int
  let scope: AppScope

  private static let start: Int64 = 1_796_000_000_000
  private static let plans = ["free", "gold", "silver", "trial"]
  private static let locales = ["en-GB", "en-US", "de-DE", "it-IT", "fr-FR", "es-ES"]
  private static let zones = ["Europe/London", "America/New_York", "Europe/Berlin", "Europe/Rome", "Europe/Paris"]

  /// Unix milliseconds.
  func at(_ round: Int) -> Int64 { RegistrySample.start + Int64(round) * 86_400_000 }

  /// The registration of a device. In a later round it is a day later, with another level and without the unchanged fields.
  func body(_ number: Int, round: Int) -> [UInt8] {
    var random = SeededRandom(seed: UInt64(number))
    let id = UUIDValue(high: random.next(), low: random.next()).text.uppercased()
    let head =
      "{\"version\":1,\"kind\":\"device\",\"at\":\(at(round)),\"app\":\"\(scope.app)\",\"environment\":\"\(scope.environment.name)\",\"device\":\"\(id)\""
    let level = (number + round) % 50
    guard round == 0 else { return Array("\(head),\"tags\":{\"level\":\(level)}}".utf8) }
    var token: [UInt8] = []
    while token.count < 112 {
      let word = random.next()
      for index in 0..<8 { token.append(UInt8(truncatingIfNeeded: word >> UInt64(index * 8))) }
    }
    let locale = RegistrySample.locales[number % 6]
    let tags = [
      "\"plan\":\"\(RegistrySample.plans[number % 4])\"", "\"level\":\(level)", "\"vip\":\(number % 10 == 0)",
      "\"city\":\"city-\(number % 1_000)\"", "\"language\":\"\(locale.prefix(2))\"",
      "\"teams\":[\"team-\(number % 100)\",\"team-\(number % 37)x\"]", "\"since\":\(2_015 + number % 11)",
      "\"newsletter\":\(number % 3 == 0)",
    ]
    return Array(
      """
      \(head),"user":"user-\(number)","token":"\(Hex.text(Array(token[..<32])))",\
      "push_to_start":{"*":"\(Hex.text(Array(token[32...])))"},"locale":"\(locale)","os_version":"\(17 + number % 2).\(number % 6)",\
      "time_zone":"\(RegistrySample.zones[number % 5])","tags":{\(tags.joined(separator: ","))}}
      """.utf8)
  }
}
