import PushCore

/// Keeps the rates of devices from outside: what the admission script let through, by the clock of the Redis that it ran in. It reads
/// the script's arguments by their documented format, and knows limits as operators wrote them.
struct RateAuditor {
  private struct Device: Hashable {
    let key: [UInt8]
    /// Of its rate's rule.
    let rule: [UInt8]
  }

  private struct Target: Hashable {
    let device: [UInt8]
    let job: [UInt8]
  }

  var limits: Set<RateLimit> = []
  /// There are broadcasts, which have no rate.
  var mayBeUnrated = false
  private(set) var violations: [String] = []
  /// When all that was let through would be over at the rate's pace, microseconds.
  private var paidUntil: [Device: Int64] = [:]
  /// What comes again was paid for, or is charged more than it would have to be.
  private var admitted: Set<Target> = []

  private static let unrated: UInt8 = 255

  /// A call of the admission script.
  mutating func ran(_ call: SimulatedRedisCall) {
    guard let settings = call.arguments.last, call.arguments.count == call.keys.count + 1 else { return }
    for (index, device) in call.keys.enumerated() where isLetThrough(index, call.reply) {
      let ask = call.arguments[index]
      if ask[0] == RateAuditor.unrated, !mayBeUnrated { violations.append("a device without a rate") }
      let start = 24 + Int(ask[0]) * 20
      // No rule, or only asked about.
      guard start + 20 <= settings.count, admitted.insert(Target(device: device, job: Array(ask[1..<9]))).inserted
      else {
        continue
      }
      let (interval, tolerance) = (number(settings, start), number(settings, start + 8))
      guard limits.contains(where: { $0.intervalMicroseconds == interval && $0.toleranceMicroseconds == tolerance })
      else {
        violations.append("a rate that nobody wrote: one in \(interval) µs")
        continue
      }
      let rate = Device(key: device, rule: Array(settings[start + 16..<start + 20]))
      let until = max(paidUntil[rate] ?? 0, call.unixMicroseconds)
      if until - call.unixMicroseconds > tolerance {
        violations.append("over its rate: \(String(decoding: device, as: UTF8.self))")
      }
      paidUntil[rate] = until + interval
    }
  }

  private func isLetThrough(_ index: Int, _ reply: SimulatedRedisReply) -> Bool {
    switch reply {
    case .integer(let number): return number == 0
    case .array(let answers):
      return answers[index] == .integer(0) || answers[index] == .status(Array("repeated 0".utf8))
    default: return false
    }
  }

  /// A double at this place, as a whole number.
  private func number(_ bytes: [UInt8], _ start: Int) -> Int64 {
    let pattern = bytes[start..<start + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    return Int64(Double(bitPattern: pattern))
  }
}
