/// The text form of a remembered outcome, for Redis: `1a200,1,0,1796000000031,27,,`.
///
/// Version, outcome letter, then fields between commas, empty where nil: status, attempts, ambiguous (1 or 0), completion
/// (Unix ms), milliseconds from sending to completion, unregistration (Unix ms), reason. The reason is last because an
/// unknown one may hold a comma. Text rather than binary: as short (29 bytes for most), and readable in `redis-cli`.
extension RememberedOutcome {
  /// The longest encoding in bytes: every field at its widest.
  package static let encodedCountMaximum = 192

  package func encode(into output: inout [UInt8]) {
    output.append(UInt8(ascii: "1"))
    output.append(outcome.letter)
    RememberedOutcome.append(status.map(Int64.init), to: &output)
    output.append(UInt8(ascii: ","))
    RememberedOutcome.append(Int64(attempts), to: &output)
    output.append(UInt8(ascii: ","))
    output.append(isAmbiguous ? UInt8(ascii: "1") : UInt8(ascii: "0"))
    output.append(UInt8(ascii: ","))
    RememberedOutcome.append(completedAt, to: &output)
    output.append(UInt8(ascii: ","))
    RememberedOutcome.append(sentAt.map { completedAt &- $0 }, to: &output)
    output.append(UInt8(ascii: ","))
    RememberedOutcome.append(unregisteredAt, to: &output)
    output.append(UInt8(ascii: ","))
    reason?.writeName(to: &output)
  }

  /// nil where the bytes are not an encoding of this version: the job is then sent as if nothing were remembered.
  package init?(decoding bytes: Span<UInt8>) {
    guard bytes.count >= 2, bytes.count <= RememberedOutcome.encodedCountMaximum, bytes[0] == UInt8(ascii: "1"),
      let outcome = Outcome(letter: bytes[1])
    else { return nil }
    var reader = FieldReader(position: 2)
    guard let status = reader.number(bytes), let attempts = reader.number(bytes), let ambiguous = reader.number(bytes),
      let completedAt = reader.number(bytes)?.value, let duration = reader.number(bytes),
      let unregisteredAt = reader.number(bytes)
    else { return nil }
    var statusCode: UInt16?
    if let value = status.value {
      guard let code = UInt16(exactly: value) else { return nil }
      statusCode = code
    }
    guard let attemptCount = attempts.value.flatMap({ UInt32(exactly: $0) }), let flag = ambiguous.value, 0...1 ~= flag
    else { return nil }
    let reasonBytes = bytes.extracting(reader.position..<bytes.count)
    self.init(
      outcome: outcome, status: statusCode, reason: reasonBytes.isEmpty ? nil : APNsReason(reasonBytes),
      unregisteredAt: unregisteredAt.value, attempts: attemptCount, isAmbiguous: flag == 1,
      sentAt: duration.value.map { completedAt &- $0 }, completedAt: completedAt)
  }

  private static func append(_ number: Int64?, to output: inout [UInt8]) {
    if let number { output.append(decimal: number) }
  }

  /// Reads fields up to their commas.
  private struct FieldReader {
    struct Field {
      /// nil where the field is empty.
      var value: Int64?
    }

    var position: Int

    /// The next field and its comma; nil where it is not a number that fits.
    mutating func number(_ bytes: Span<UInt8>) -> Field? {
      var magnitude: Int64 = 0
      var isNegative = false
      var isEmpty = true
      while position < bytes.count {
        let byte = bytes[position]
        position += 1
        switch byte {
        case UInt8(ascii: ","):
          if isEmpty { return isNegative ? nil : Field(value: nil) }
          return Field(value: magnitude)
        case UInt8(ascii: "-") where isEmpty && !isNegative:
          isNegative = true
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
          let digit = Int64(byte - UInt8(ascii: "0"))
          let (product, overflow) = magnitude.multipliedReportingOverflow(by: 10)
          // Summed with its sign, so that the smallest number fits as well.
          let (sum, carry) = product.addingReportingOverflow(isNegative ? -digit : digit)
          if overflow || carry { return nil }
          magnitude = sum
          isEmpty = false
        default:
          return nil
        }
      }
      return nil
    }
  }
}

extension Outcome {
  fileprivate var letter: UInt8 {
    switch self {
    case .accepted: UInt8(ascii: "a")
    case .rejected: UInt8(ascii: "r")
    case .unregistered: UInt8(ascii: "u")
    case .expired: UInt8(ascii: "e")
    case .throttled: UInt8(ascii: "t")
    case .invalid: UInt8(ascii: "i")
    case .failed: UInt8(ascii: "f")
    }
  }

  fileprivate init?(letter: UInt8) {
    for outcome in Outcome.allCases where outcome.letter == letter {
      self = outcome
      return
    }
    return nil
  }
}
