/// A device's value, decoded for an auditor from the format's documentation alone.
package struct SimulatedDeviceRecord: Hashable, Sendable {
  package struct Rate: Hashable, Sendable {
    /// The rule's name, four bytes.
    package var name: UInt32
    /// Theoretical arrival, Unix microseconds.
    package var arrival: UInt64
    package var run: UInt8
  }

  package struct Job: Hashable, Sendable {
    /// Eight bytes, little-endian.
    package var name: UInt64
    package var state: State
  }

  package enum State: Hashable, Sendable {
    /// In flight; `until` in Unix seconds.
    case claimed(number: UInt32, until: UInt32, run: UInt8)
    case answered(SimulatedOutcomeRecord)
  }

  package var rates: [Rate] = []
  /// Until when delayed jobs may have keys, Unix seconds.
  package var waitingUntil: UInt32?
  /// Since when the token is dead (Unix ms), and when this is forgotten (Unix s).
  package var deadSince: Double?
  package var deadUntil: UInt32?
  /// Until when jobs may have keys of their own, Unix seconds.
  package var elsewhereUntil: UInt32?
  /// Oldest first.
  package var jobs: [Job] = []

  /// nil: the bytes are not a device's value.
  package init?(_ value: [UInt8]) {
    var rest = value[...]
    // If Redis lost the device's value, an answer alone creates it, without the version.
    if rest.first == 209 { rest = rest.dropFirst() } else if rest.first != 161 { return nil }
    while let kind = rest.popFirst() {
      switch kind {
      case 1:
        guard let arrival = Self.take(7, &rest), let name = Self.take(4, &rest), let run = rest.popFirst() else {
          return nil
        }
        rates.append(Rate(name: UInt32(name), arrival: arrival, run: run))
      case 2, 4:
        guard let until = Self.take(4, &rest) else { return nil }
        if kind == 2 { waitingUntil = UInt32(until) } else { elsewhereUntil = UInt32(until) }
      case 3:
        guard let since = Self.take(8, &rest), let until = Self.take(4, &rest) else { return nil }
        deadSince = Double(bitPattern: since)
        deadUntil = UInt32(until)
      case 5:
        guard let name = Self.take(8, &rest), let number = Self.take(4, &rest), let until = Self.take(4, &rest),
          let run = rest.popFirst()
        else { return nil }
        jobs.append(Job(name: name, state: .claimed(number: UInt32(number), until: UInt32(until), run: run)))
      case 161:
        guard let count = rest.popFirst(), count > 8, rest.count >= Int(count), let name = Self.take(8, &rest),
          let outcome = SimulatedOutcomeRecord(rest.prefix(Int(count) - 8))
        else { return nil }
        rest = rest.dropFirst(Int(count) - 8)
        jobs.append(Job(name: name, state: .answered(outcome)))
      default:
        return nil
      }
    }
  }

  /// Takes a little-endian number.
  private static func take(_ count: Int, _ rest: inout ArraySlice<UInt8>) -> UInt64? {
    guard rest.count >= count else { return nil }
    var number: UInt64 = 0
    for byte in rest.prefix(count).reversed() { number = number << 8 | UInt64(byte) }
    rest = rest.dropFirst(count)
    return number
  }
}

/// The outcome in an answer.
package struct SimulatedOutcomeRecord: Hashable, Sendable {
  package enum Kind: UInt8, Hashable, Sendable {
    case accepted, rejected, unregistered, expired, throttled, invalid, failed
  }

  package var kind: Kind
  package var isAmbiguous: Bool
  /// Unix milliseconds.
  package var completedAt: Int64
  package var attempts: Int64
  package var status: Int64?
  /// Unix milliseconds.
  package var sentAt: Int64?
  /// Unix milliseconds.
  package var unregisteredAt: Int64?
  package var reason: String?

  /// nil: the bytes are not an outcome.
  package init?(_ bytes: ArraySlice<UInt8>) {
    var rest = bytes
    guard let head = rest.popFirst(), let kind = Kind(rawValue: head & 7), let completedAt = Self.take(&rest),
      let attempts = Self.take(&rest)
    else { return nil }
    self.kind = kind
    self.completedAt = completedAt
    self.attempts = attempts
    isAmbiguous = head & 8 != 0
    if head & 16 != 0 {
      guard let offset = Self.take(&rest) else { return nil }
      status = 200 + offset
    }
    if head & 32 != 0 {
      guard let duration = Self.take(&rest) else { return nil }
      sentAt = completedAt &- duration
    }
    if head & 64 != 0 {
      guard let time = Self.take(&rest) else { return nil }
      unregisteredAt = time
    }
    if head & 128 != 0 {
      reason = String(decoding: rest, as: UTF8.self)
    } else if !rest.isEmpty {
      return nil
    }
  }

  /// Takes a number of seven bits a byte, with the sign in the lowest bit.
  private static func take(_ rest: inout ArraySlice<UInt8>) -> Int64? {
    var number: UInt64 = 0
    var shift: UInt64 = 0
    while let byte = rest.popFirst(), shift < 64 {
      number |= UInt64(byte & 127) << shift
      if byte < 128 { return number & 1 == 0 ? Int64(number >> 1) : ~Int64(number >> 1) }
      shift += 7
    }
    return nil
  }
}
