import PushCore

/// Outcomes that were sent and not confirmed, oldest first: a ring that doubles.
struct RedisOutcomeQueue {
  struct Entry {
    var request: AdmissionRequest
    var outcome: RememberedOutcome
    /// Bytes that it has in Redis; known once it was sent.
    var byteCount = 0
    /// Sent again so often.
    var resends: UInt8 = 0

    /// To be sent once more; nil: that was done too often.
    var again: Entry? {
      guard resends < RedisRedirects.resendsMaximum else { return nil }
      var again = self
      again.resends += 1
      return again
    }
  }

  private var entries: [Entry?] = Array(repeating: nil, count: 64)
  private var head = 0
  private(set) var count = 0

  mutating func append(_ entry: Entry) {
    if count == entries.count {
      entries = Array(entries[head...] + entries[..<head]) + Array(repeating: nil, count: entries.count)
      head = 0
    }
    entries[(head + count) & (entries.count - 1)] = entry
    count += 1
  }

  mutating func popFirst() -> Entry {
    guard count > 0, let entry = entries[head] else { preconditionFailure("a confirm without its outcome") }
    removeFirst()
    return entry
  }

  /// Confirmed: nobody looks at it any more.
  mutating func removeFirst() {
    precondition(count > 0)
    entries[head] = nil
    head = (head + 1) & (entries.count - 1)
    count -= 1
  }

  /// Bytes that the oldest one has in Redis.
  var firstByteCount: Int? { entries[head]?.byteCount }
}
