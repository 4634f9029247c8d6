import PushCore
import PushIO

/// One Redis server as the admission store uses it: what waits for its replies, whether it is asked or spared, and why.
final class RedisAdmissionNode {
  let connection: RedisConnection
  var waiting = RedisAdmissionQueue()
  /// Asked for in this turn, not sent yet; nil until a server gave the script's digest.
  var admissions: RedisAdmissionCall?
  /// Outcomes on their way, as they stand in `waiting`: lost ones are told again.
  var unconfirmed = RedisOutcomeQueue()
  var breaker: BreakerState
  /// It answers, but takes no writes.
  var writeRefusal: RedisServerError?
  /// Why the breaker is open; nil while it is closed.
  var outage: String?
  /// Scripts that are being loaded again.
  var reloadTags: [UInt64] = []
  var nextWriteProbe = Instant(nanoseconds: 0)
  var nextReconnect = Instant(nanoseconds: 0)
  /// When a reply came last.
  var lastReply = Instant(nanoseconds: .min)

  init(connection: RedisConnection, breaker: BreakerState.Settings) {
    self.connection = connection
    self.breaker = BreakerState(settings: breaker)
    outage = "Redis is not connected yet"
  }

  /// Whether the reply of this tag is that of a script that was loaded again.
  func takeReload(_ tag: UInt64) -> Bool {
    guard let index = reloadTags.firstIndex(of: tag) else { return false }
    reloadTags.remove(at: index)
    return true
  }

  var trouble: String? { outage ?? writeRefusal?.description }
}

/// Outcomes that were sent and not confirmed, oldest first: a ring that doubles.
struct RedisOutcomeQueue {
  struct Entry {
    var request: AdmissionRequest
    var outcome: RememberedOutcome
    /// Bytes that it has in Redis.
    var byteCount: Int
    /// Sent again to another node so often.
    var resends: UInt8
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
