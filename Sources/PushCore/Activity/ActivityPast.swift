/// What an activity was before its newest update or end. If that is cancelled before any of it may have been sent, the activity goes on from
/// here.
package struct ActivityPast: Hashable, Sendable {
  package struct Entry: Hashable, Sendable {
    package var phase: ActivityState.Phase
    /// As in `ActivityState.Content`.
    package var place: Int64
    package var isEnd: Bool
    /// The update or end as a job, with the state that it shows; empty: there was none.
    package var body: [UInt8]
    /// Empty: none.
    package var contentState: [UInt8]

    package init(
      phase: ActivityState.Phase, place: Int64 = 0, isEnd: Bool = false, body: [UInt8] = [], contentState: [UInt8]
    ) {
      self.phase = phase
      self.place = place
      self.isEnd = isEnd
      self.body = body
      self.contentState = contentState
    }
  }

  /// So many jobs in a row can be taken back.
  package static let countMaximum = 3

  /// The revision of the newest update or end. An older version of Herald may have stored a newer one, and nothing here.
  private var number: UInt32 = 0
  /// The newest first.
  private var entries: [Entry] = []

  package init() {}

  /// - Parameters:
  ///   - newest: the revision of a newer update or end.
  ///   - before: of the one that it replaces; 0: none.
  ///   - entry: that one; nil: none of it was sent, so nothing shows it.
  package mutating func append(_ entry: Entry?, before: UInt32, newest: UInt32) {
    if before != number { entries = [] }
    if let entry { entries.insert(entry, at: 0) }
    if entries.count > ActivityPast.countMaximum { entries.removeLast() }
    number = newest
  }

  /// What was before the newest update or end; nil: it is not known.
  package func last(before newest: UInt32) -> Entry? { newest == number ? entries.first : nil }

  /// Nothing of a job was sent, and nothing will be.
  package mutating func remove(_ isJob: ([UInt8]) -> Bool) { entries.removeAll { !$0.body.isEmpty && isJob($0.body) } }

  /// - Parameter newest: the revision of what was last; 0: there was only the start.
  package mutating func tookBack(newest: UInt32) {
    entries.removeFirst()
    number = newest
  }

  // MARK: Bytes

  private static let form: UInt8 = 1
  private static let isEnd: UInt8 = 1

  /// Empty if it is.
  package func encode() -> [UInt8] {
    if entries.isEmpty { return [] }
    var bytes: [UInt8] = [Self.form]
    bytes.append(littleEndian: UInt64(number), count: 4)
    for entry in entries {
      bytes += [entry.phase.rawValue, entry.isEnd ? Self.isEnd : 0]
      bytes.append(littleEndian: UInt64(bitPattern: entry.place), count: 8)
      for text in [entry.body, entry.contentState] {
        bytes.append(littleEndian: UInt64(text.count), count: 4)
        bytes += text
      }
    }
    return bytes
  }

  /// nil: invalid.
  package init?(decoding bytes: Span<UInt8>) {
    if bytes.isEmpty { return }
    guard bytes.count >= 5, bytes[0] == Self.form else { return nil }
    number = UInt32(bytes.word(at: 1, count: 4))
    var position = 5
    while position < bytes.count {
      guard bytes.count - position >= 10, let phase = ActivityState.Phase(rawValue: bytes[position]) else { return nil }
      let isEnd = bytes[position + 1] & Self.isEnd != 0
      let place = Int64(bitPattern: bytes.word(at: position + 2))
      position += 10
      var texts: [[UInt8]] = []
      for _ in 0..<2 {
        guard bytes.count - position >= 4, case let count = Int(bytes.word(at: position, count: 4)),
          bytes.count - position - 4 >= count
        else { return nil }
        position += 4
        var text: [UInt8] = []
        text.reserveCapacity(count)
        for index in position..<position + count { text.append(bytes[index]) }
        texts.append(text)
        position += count
      }
      entries.append(Entry(phase: phase, place: place, isEnd: isEnd, body: texts[0], contentState: texts[1]))
    }
    guard entries.count <= ActivityPast.countMaximum else { return nil }
  }
}

extension ActivityState {
  /// Its newest update or end was cancelled before any of it may have been sent: what was before is the newest again, as a new revision. So
  /// whoever counts as having the cancelled one is given it.
  /// - Parameters:
  ///   - isLive: a device has registered an update token.
  /// - Returns: the revision; nil: there was only the start.
  package mutating func takeBack(
    to before: ActivityPast.Entry, isLive: Bool, jobs: inout ActivityJobs, now: Int64
  ) -> ActivityRevision? {
    if storedPhase == .ended { storedPhase = before.phase == .starting && isLive ? .active : before.phase }
    guard !before.body.isEmpty else {
      content = nil
      return nil
    }
    let revision = next(ActivityJobs.takenBack, &jobs, now)
    sentTimestamp = max(sentTimestamp, revision.timestamp)
    content = Content(revision: revision, place: before.place, isEnd: before.isEnd, shownPlace: nil, isBegun: true)
    return revision
  }
}

extension ActivityJobs {
  /// Stands for the job of a revision that `takeBack` made.
  static let takenBack: UInt64 = 0

  /// Whether `takeBack` made the revision.
  /// - Parameter last: as in `find`.
  package func isTakenBack(_ number: UInt32, last: UInt32) -> Bool {
    if case .revision(number) = find(ActivityJobs.takenBack, last: last) { true } else { false }
  }
}
