/// The ends of an activity for some devices only, as jobs for late tokens.
package struct ActivityLeaves: Hashable, Sendable {
  package struct Entry: Hashable, Sendable {
    package let revision: ActivityRevision
    /// The job, which names no device; empty: it was cancelled, and surely not sent.
    package fileprivate(set) var body: [UInt8]
  }

  /// Of so many the bodies are kept; who left by an older one is sent the newest.
  package static let countMaximum = 4

  /// The newest first.
  private var entries: [Entry] = []

  package init() {}

  package func has(_ number: UInt32) -> Bool { entries.contains { $0.revision.number == number } }

  /// - Parameter earlier: another revision of the same job; 0: it has none.
  package mutating func append(_ revision: ActivityRevision, _ body: [UInt8], insteadOf earlier: UInt32 = 0) {
    entries.removeAll { $0.revision.number == earlier }
    entries.insert(Entry(revision: revision, body: body), at: 0)
    guard entries.count > ActivityLeaves.countMaximum else { return }
    entries.remove(at: entries.lastIndex { $0.body.isEmpty } ?? entries.count - 1)
  }

  /// May be called again.
  package mutating func cancel(_ number: UInt32) {
    for index in entries.indices where entries[index].revision.number == number { entries[index].body = [] }
  }

  /// The one that a device which left is shown: the newest that named it, if it is kept; else the newest of all. nil: none is known.
  package func last(of member: ActivityMember) -> Entry? {
    let known = entries.lazy.filter { !$0.body.isEmpty }
    return known.first { member.leaves.contains($0.revision.number) } ?? known.first
  }

  // MARK: Bytes

  private static let form: UInt8 = 1

  /// Empty if it is.
  package func encode() -> [UInt8] {
    if entries.isEmpty { return [] }
    var bytes: [UInt8] = [Self.form]
    for entry in entries {
      bytes.append(littleEndian: UInt64(entry.revision.number), count: 4)
      bytes.append(littleEndian: UInt64(bitPattern: entry.revision.timestamp), count: 8)
      bytes.append(littleEndian: UInt64(entry.body.count), count: 4)
      bytes += entry.body
    }
    return bytes
  }

  /// nil: invalid.
  /// - Parameter only: the revision of the newest; an older version of Herald stored that body alone.
  package init?(decoding bytes: Span<UInt8>, only: ActivityRevision?) {
    if bytes.isEmpty { return }
    if bytes[0] == ASCII.openBrace, let only {
      var body: [UInt8] = []
      body.reserveCapacity(bytes.count)
      for index in 0..<bytes.count { body.append(bytes[index]) }
      entries = [Entry(revision: only, body: body)]
      return
    }
    guard bytes[0] == Self.form else { return nil }
    var position = 1
    while position < bytes.count {
      guard bytes.count - position >= 16 else { return nil }
      let number = UInt32(bytes.word(at: position, count: 4))
      let timestamp = Int64(bitPattern: bytes.word(at: position + 4))
      let count = Int(bytes.word(at: position + 12, count: 4))
      position += 16
      guard 0...Limits.unixMillisecondsMaximum ~= timestamp, bytes.count - position >= count else { return nil }
      var body: [UInt8] = []
      body.reserveCapacity(count)
      for index in position..<position + count { body.append(bytes[index]) }
      position += count
      entries.append(Entry(revision: ActivityRevision(number: number, timestamp: timestamp), body: body))
    }
    guard entries.count <= ActivityLeaves.countMaximum else { return nil }
  }
}
