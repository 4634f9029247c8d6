/// The jobs of an activity's last revisions: a duplicate of a job gets the same revision. Before the activity was known: the jobs that it
/// refused, which stay refused. Otherwise, of two copies of a job, one could be refused and the other get a revision.
///
/// Bounded: a duplicate after this many newer jobs counts as new.
package struct ActivityJobs: Hashable, Sendable {
  /// 4 KiB in Redis. At one update a second this covers more than eight minutes; the broker redelivers within seconds.
  package static let countMaximum = 512

  /// A word for each refused job, then for each revision, the newest last. The oldest leave first.
  private var words: [UInt64] = []

  package init() {}

  /// A hash of the job's id.
  package static func word(of id: Span<UInt8>) -> UInt64 {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2061, key1: 0x6374_6976_6974_7921)
    hash.append(UInt64(id.count))
    hash.append(padding: id)
    return hash.finish().first
  }

  package enum Finding {
    case new
    /// It came before the activity was known.
    case refused
    /// A duplicate: it has this revision.
    case revision(UInt32)
  }

  /// - Parameter last: the number of the newest revision.
  package func find(_ job: UInt64, last: UInt32) -> Finding {
    guard let place = words.lastIndex(of: job) else { return .new }
    let newer = UInt32(words.count - 1 - place)
    return newer < last ? .revision(last - newer) : .refused
  }

  /// The activity is not known: its jobs are refused.
  mutating func refuse(_ job: UInt64) {
    if !words.contains(job) { append(job) }
  }

  mutating func append(_ job: UInt64) {
    words.append(job)
    if words.count > ActivityJobs.countMaximum { words.removeFirst() }
  }

  // MARK: Bytes

  /// Eight bytes each, little-endian.
  package func encode() -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(words.count * 8)
    for word in words { bytes.append(littleEndian: word, count: 8) }
    return bytes
  }

  /// nil: invalid.
  package init?(decoding bytes: Span<UInt8>) {
    guard bytes.count % 8 == 0, bytes.count <= ActivityJobs.countMaximum * 8 else { return nil }
    words = stride(from: 0, to: bytes.count, by: 8).map { bytes.word(at: $0) }
  }
}

extension [UInt8] {
  /// Appends the lowest `count` bytes of a number, lowest first.
  mutating func append(littleEndian number: UInt64, count: Int) {
    for place in 0..<count { append(UInt8(truncatingIfNeeded: number >> UInt64(place * 8))) }
  }
}
