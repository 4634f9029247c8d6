import PushCore

/// Which publish a returned message was: the broker hands back exchange, routing key and properties, never the number.
///
/// A ring by sequence number of the keys that are unsettled; looked through only when a message comes back.
struct RabbitMQPublishLog {
  /// 0 = settled, or never looked for.
  private var keys: [UInt64]
  /// Everything below is settled.
  private var lowest: UInt64 = 1
  /// One past the newest.
  private var end: UInt64 = 1

  /// `capacity`: unsettled publishes; older ones are forgotten.
  init(capacity: Int) {
    var size = 64
    while size < capacity { size *= 2 }
    keys = Array(repeating: 0, count: size)
  }

  /// Remembers a publish. Sequence numbers count up by one.
  mutating func published(_ sequence: UInt64, key: UInt64) {
    precondition(sequence == end, "sequence numbers count up by one")
    keys[slot(sequence)] = key
    end += 1
    if end - lowest > UInt64(keys.count) { lowest = end - UInt64(keys.count) }
  }

  /// Forgets what a confirm or refusal settled.
  mutating func settled(_ sequence: UInt64, isMultiple: Bool) {
    guard sequence >= lowest, sequence < end else { return }
    if isMultiple {
      while lowest <= sequence {
        keys[slot(lowest)] = 0
        lowest += 1
      }
    } else {
      keys[slot(sequence)] = 0
      while lowest < end, keys[slot(lowest)] == 0 { lowest += 1 }
    }
  }

  /// The connection is gone: nothing of it comes back.
  mutating func reset() {
    settled(end - 1, isMultiple: true)
  }

  /// The oldest unsettled publish with this key; nil where there is none.
  func sequence(ofKey key: UInt64) -> UInt64? {
    var sequence = lowest
    while sequence < end {
      if keys[slot(sequence)] == key { return sequence }
      sequence += 1
    }
    return nil
  }

  private func slot(_ sequence: UInt64) -> Int { Int(truncatingIfNeeded: sequence) & (keys.count - 1) }

  /// Tells messages apart by where they went and what they are called. Never 0.
  static func key(exchange: Span<UInt8>, routingKey: Span<UInt8>, messageID: Span<UInt8>) -> UInt64 {
    var hash = mix(0x9E37_79B9_7F4A_7C15, exchange)
    hash = mix(hash, routingKey)
    hash = mix(hash, messageID)
    return hash | 1
  }

  private static func mix(_ seed: UInt64, _ bytes: Span<UInt8>) -> UInt64 {
    var hash = (seed ^ UInt64(truncatingIfNeeded: bytes.count)) &* 0xFF51_AFD7_ED55_8CCD
    var offset = 0
    while offset < bytes.count {
      hash = (hash ^ bytes.word(at: offset, count: bytes.count - offset)) &* 0xC4CE_B9FE_1A85_EC53
      hash ^= hash >> 29
      offset += 8
    }
    return hash
  }
}
