/// The bytes of a remembered outcome, for Redis: 10 or 11 for most.
///
/// The first byte holds the outcome (3 bits, `Outcome.code`), whether it is ambiguous (8), and which of these follow: a status (16), a time
/// of sending (32), an unregistration (64), a reason (128). Then come numbers: completion (Unix ms), attempts, and if present, status less
/// 200, milliseconds from sending to completion, unregistration (Unix ms). The reason's text is last. A number has seven bits a byte, the
/// lowest first, 128 if more follow, and its sign in its lowest bit.
///
/// It is short because Redis keeps one for each job of several hours.
extension RememberedOutcome {
  /// The longest encoding in bytes: every field at its widest.
  package static let encodedCountMaximum = 103

  private static let ambiguous: UInt8 = 8
  private static let hasStatus: UInt8 = 16
  private static let hasSendingTime: UInt8 = 32
  private static let hasUnregistration: UInt8 = 64
  private static let hasReason: UInt8 = 128

  package func encode(into output: inout [UInt8]) {
    var head = outcome.code
    if isAmbiguous { head |= Self.ambiguous }
    if status != nil { head |= Self.hasStatus }
    if sentAt != nil { head |= Self.hasSendingTime }
    if unregisteredAt != nil { head |= Self.hasUnregistration }
    if reason != nil { head |= Self.hasReason }
    output.append(head)
    Self.append(completedAt, to: &output)
    Self.append(Int64(attempts), to: &output)
    if let status { Self.append(Int64(status) - 200, to: &output) }
    if let sentAt { Self.append(completedAt &- sentAt, to: &output) }
    if let unregisteredAt { Self.append(unregisteredAt, to: &output) }
    reason?.writeName(to: &output)
  }

  /// nil if the bytes are not an encoding: the job is then sent as if nothing were remembered.
  package init?(decoding bytes: Span<UInt8>) {
    guard bytes.count > 0, bytes.count <= Self.encodedCountMaximum, let outcome = Outcome(code: bytes[0] & 7) else {
      return nil
    }
    let head = bytes[0]
    var reader = NumberReader(position: 1)
    guard let completedAt = reader.nextTime(bytes), let attempts = reader.next(bytes).flatMap(UInt32.init(exactly:))
    else { return nil }
    self.init(
      outcome: outcome, attempts: attempts, isAmbiguous: head & Self.ambiguous != 0, sentAt: nil,
      completedAt: completedAt)
    if head & Self.hasStatus != 0 {
      guard let number = reader.next(bytes), let code = UInt16(exactly: number &+ 200) else { return nil }
      status = code
    }
    if head & Self.hasSendingTime != 0 {
      guard let duration = reader.next(bytes) else { return nil }
      sentAt = completedAt &- duration
    }
    if head & Self.hasUnregistration != 0 {
      guard let time = reader.nextTime(bytes) else { return nil }
      unregisteredAt = time
    }
    let rest = bytes.extracting(reader.position..<bytes.count)
    if head & Self.hasReason != 0 {
      reason = APNsReason(rest)
    } else if !rest.isEmpty {
      return nil
    }
  }

  private static func append(_ number: Int64, to output: inout [UInt8]) {
    var rest = UInt64(bitPattern: number << 1 ^ number >> 63)
    while rest >= 128 {
      output.append(UInt8(truncatingIfNeeded: rest) | 128)
      rest >>= 7
    }
    output.append(UInt8(rest))
  }

  private struct NumberReader {
    var position: Int

    /// The next number; nil if it does not end, or is too large.
    mutating func next(_ bytes: Span<UInt8>) -> Int64? {
      var number: UInt64 = 0
      var shift: UInt64 = 0
      while position < bytes.count, shift < 64 {
        let byte = bytes[position]
        position += 1
        // The tenth byte has room only for its lowest bit.
        if shift == 63, byte > 1 { return nil }
        number |= UInt64(byte & 127) << shift
        if byte < 128 { return Int64(bitPattern: number >> 1) ^ -Int64(number & 1) }
        shift += 7
      }
      return nil
    }

    /// The next number, which is Unix milliseconds; nil if it is no time.
    mutating func nextTime(_ bytes: Span<UInt8>) -> Int64? {
      next(bytes).flatMap { 0...Limits.unixMillisecondsMaximum ~= $0 ? $0 : nil }
    }
  }
}

extension Outcome {
  /// As stored in Redis: these numbers never change.
  fileprivate var code: UInt8 {
    switch self {
    case .accepted: 0
    case .rejected: 1
    case .unregistered: 2
    case .expired: 3
    case .throttled: 4
    case .invalid: 5
    case .failed: 6
    // A number that no encoding has: an audience has no answer of APNs.
    case .completed: 7
    }
  }

  fileprivate init?(code: UInt8) {
    for outcome in Outcome.allCases where outcome.code == code && outcome != .completed {
      self = outcome
      return
    }
    return nil
  }
}
