import PushCore

/// Checks the devices' rates from outside: what the admission script admitted, by its Redis' clock. It reads
/// the script's arguments in their documented format, and knows the limits from the configuration.
struct RateAuditor {
  private struct Device: Hashable {
    let key: [UInt8]
    /// The name of the rate's rule.
    let rule: [UInt8]
  }

  private struct Target: Hashable {
    let device: [UInt8]
    let job: [UInt8]
  }

  var limits: Set<RateLimit> = []
  /// Broadcasts are sent, which have no rate.
  var mayBeUnrated = false
  private(set) var violations: [String] = []
  /// When each rate has paid for everything that was admitted, Unix microseconds.
  private var paidUntil: [Device: Int64] = [:]
  /// A repeated target was paid for, or is charged more than necessary.
  private var admitted: Set<Target> = []

  private static let unrated: UInt8 = 255

  /// A call of the admission script.
  mutating func ran(_ call: SimulatedRedisCall) {
    guard let settings = call.arguments.last, call.arguments.count == call.keys.count + 1 else { return }
    for (index, device) in call.keys.enumerated() where isLetThrough(index, call.reply) {
      let ask = call.arguments[index]
      if ask[0] == RateAuditor.unrated, !mayBeUnrated { violations.append("a device without a rate") }
      let start = 32 + Int(ask[0]) * 20
      // No rule, or a query without a charge.
      guard start + 20 <= settings.count, admitted.insert(Target(device: device, job: Array(ask[1..<9]))).inserted
      else {
        continue
      }
      let (interval, tolerance) = (number(settings, start), number(settings, start + 8))
      guard limits.contains(where: { $0.intervalMicroseconds == interval && $0.toleranceMicroseconds == tolerance })
      else {
        violations.append("a rate that is not configured: one in \(interval) µs")
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

  /// The double at this position, as an integer.
  private func number(_ bytes: [UInt8], _ start: Int) -> Int64 {
    let pattern = bytes[start..<start + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    return Int64(Double(bitPattern: pattern))
  }
}
