/// An app with audiences. Two of them have the same ids of devices, users and activities, but nothing else in common.
enum SimulatedApp: Sendable {
  case first, second

  var id: String {
    switch self {
    case .first: SimulatedJob.app
    case .second: SimulatedJob.campaignApp
    }
  }

  /// Fills its device tokens.
  var tokenDigit: String { self == .first ? "0" : "1" }

  /// Begins the last part of its jobs' ids.
  var jobDigit: String { self == .first ? "a" : "c" }

  /// The numbers of its jobs, which its content states and alerts have, are this much larger.
  var firstNumber: Int { self == .first ? 0 : 500 }

  /// Whether this is the number of one of its jobs.
  func owns(_ number: Int) -> Bool { (number % 1_000 >= SimulatedApp.second.firstNumber) == (self == .second) }
}

/// Texts that are equal only canonically. In the simulation's own texts `(1)` stands for `é` in one scalar, and `(2)` for `é` in two.
enum Twins {
  private static let spellings: [(text: [UInt8], bytes: [UInt8])] = [
    (Array("(1)".utf8), [0xC3, 0xA9]), (Array("(2)".utf8), [0x65, 0xCC, 0x81]),
  ]

  /// As a message has it.
  static func written(_ text: String) -> [UInt8] {
    spellings.reduce(Array(text.utf8)) { replace($1.text, by: $1.bytes, in: $0) }
  }

  /// As the simulation has it.
  static func read(_ bytes: [UInt8]) -> String {
    guard bytes.contains(where: { $0 >= 0x80 }) else { return String(decoding: bytes, as: UTF8.self) }
    return String(decoding: spellings.reduce(bytes) { replace($1.bytes, by: $1.text, in: $0) }, as: UTF8.self)
  }

  private static func replace(_ old: [UInt8], by new: [UInt8], in bytes: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var index = 0
    while index < bytes.count {
      if bytes[index...].starts(with: old) {
        result += new
        index += old.count
      } else {
        result.append(bytes[index])
        index += 1
      }
    }
    return result
  }
}
