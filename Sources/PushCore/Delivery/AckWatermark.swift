/// Which deliveries of one channel are settled, and up to where they can be acknowledged with one frame.
///
/// Jobs end out of order. The broker acknowledges up to the highest tag below which all are settled. A rejected tag is settled too, but is
/// never named in an acknowledgement: the broker no longer knows it and would close the channel.
///
/// Long-waiting jobs must not hold up the credit of all deliveries behind them, even if one follows another. While a delivery that was open
/// at the last look is still open, the others are acknowledged one by one (`takeOne`). It is put aside then, so that the range of those behind
/// it stays short, however long it is open.
package struct AckWatermark: Sendable {
  private enum Mark: UInt8 {
    /// Delivered; its job is in progress.
    case open
    /// Its job ended; it must be acknowledged.
    case done
    /// Returned to the broker, or acknowledged, with a frame of its own.
    case rejected
  }

  /// Between two looks for deliveries that hold up others.
  private static let lookMilliseconds: Int64 = 100
  /// A range of so many is shortened, even if few wait for their acknowledgement.
  private static let longRange: UInt64 = 4_096

  private var marks: [Mark]
  /// The oldest tag that is not settled; everything before it is, except those put aside. While there are any, it passes no `done` tag.
  private var base: UInt64 = 1
  /// One past the newest tag delivered.
  private var end: UInt64 = 1
  /// The highest `done` tag below `base` that is not acknowledged yet.
  private var acknowledgeable: UInt64?
  /// Deliveries that the next acknowledgement settles.
  package private(set) var pendingCount = 0
  /// When the oldest of them became pending.
  package private(set) var pendingSince: Instant?
  /// Deliveries that are done while an older one is open.
  private var heldUpCount = 0
  /// The last look, and one past the newest delivery at that time.
  private var look: (at: Instant, end: UInt64)?
  /// At the last look, a delivery was still open that was delivered before the previous look.
  private var isHeldUp = false
  /// One past the newest of those: what is open before it may be put aside.
  private var oldEnd: UInt64 = 0
  /// Open for long, and before `base`.
  private var old: Set<UInt64> = []
  /// The same, done while others of them are open, and not acknowledged yet.
  private var oldDone: [UInt64] = []
  /// The tags that `takeOne` has still to visit; nil: it has not started.
  private var alone: Range<UInt64>?

  /// `capacity`: expected unsettled deliveries, the channel's prefetch.
  package init(capacity: Int) {
    var size = 64
    while size < capacity { size *= 2 }
    marks = Array(repeating: .open, count: size)
  }

  /// Deliveries whose jobs have not ended.
  package var openCount: Int {
    var count = old.count
    var tag = base
    while tag < end {
      if marks[slot(tag)] == .open { count += 1 }
      tag += 1
    }
    return count
  }

  /// Tags from the oldest that is not settled to the newest, without those put aside.
  package var range: UInt64 { end - base }

  /// A new channel: old tags are invalid, and new ones start at 1.
  package mutating func reset() {
    base = 1
    end = 1
    acknowledgeable = nil
    pendingCount = 0
    pendingSince = nil
    heldUpCount = 0
    look = nil
    isHeldUp = false
    oldEnd = 0
    old.removeAll()
    oldDone.removeAll()
    alone = nil
  }

  /// A delivery came. false: the tag was seen before or jumps by more than any prefetch, so the peer broke the protocol.
  package mutating func delivered(_ tag: UInt64) -> Bool {
    guard tag >= end, tag - end < 1 << 16 else { return false }
    while Int(tag - base) >= marks.count { grow() }
    while end < tag {
      // A channel's tags have no gaps; a tag that never came has nothing to acknowledge.
      marks[slot(end)] = .rejected
      end += 1
    }
    marks[slot(tag)] = .open
    end += 1
    return true
  }

  /// The delivery's job ended, and everything that replaces it is confirmed.
  package mutating func done(_ tag: UInt64, now: Instant) {
    settle(tag, .done, now: now)
  }

  /// The delivery was returned with a frame of its own.
  package mutating func rejected(_ tag: UInt64, now: Instant) {
    settle(tag, .rejected, now: now)
  }

  /// The tag to acknowledge with `multiple`, if an acknowledgement is due: `batch` deliveries wait, or the oldest has waited for
  /// `delayMilliseconds`.
  package mutating func takeDue(now: Instant, batch: Int, delayMilliseconds: Int64) -> UInt64? {
    guard let tag = acknowledgeable, let since = pendingSince else { return nil }
    guard pendingCount >= batch || now.milliseconds(since: since) >= delayMilliseconds else { return nil }
    acknowledgeable = nil
    pendingCount = 0
    pendingSince = nil
    return tag
  }

  /// The next tag to acknowledge alone, if an old delivery holds up at least `batch`; nil: no more. Jobs that merely end out of order cost
  /// no extra frames.
  package mutating func takeOne(now: Instant, batch: Int) -> UInt64? {
    if let tag = oldDone.popLast() { return tag }
    if alone == nil {
      guard let last = look else {
        look = (now, end)
        return nil
      }
      if now.milliseconds(since: last.at) >= AckWatermark.lookMilliseconds {
        isHeldUp = base < last.end || !old.isEmpty
        oldEnd = last.end
        look = (now, end)
      }
      guard isHeldUp, heldUpCount >= batch || range >= AckWatermark.longRange else { return nil }
      alone = base..<end
    }
    while let tag = alone?.popFirst() {
      guard tag >= base, marks[slot(tag)] == .done else { continue }
      marks[slot(tag)] = .rejected
      heldUpCount -= 1
      return tag
    }
    alone = nil
    putAside(now: now)
    return nil
  }

  /// What is open for long no longer begins the range.
  private mutating func putAside(now: Instant) {
    while base < min(oldEnd, end), marks[slot(base)] != .done {
      if marks[slot(base)] == .open { old.insert(base) }
      base += 1
    }
    advance(now: now)
  }

  /// One that was put aside.
  private mutating func settleOld(_ tag: UInt64, _ mark: Mark, now: Instant) {
    if mark == .done { oldDone.append(tag) }
    guard old.isEmpty else { return }
    if let newest = oldDone.max() {
      // Nothing before it is open: one acknowledgement does for all.
      acknowledgeable = newest
      pendingCount += oldDone.count
      if pendingSince == nil { pendingSince = now }
      oldDone.removeAll()
    }
    advance(now: now)
  }

  private mutating func settle(_ tag: UInt64, _ mark: Mark, now: Instant) {
    if !old.isEmpty, old.remove(tag) != nil { return settleOld(tag, mark, now: now) }
    precondition(tag >= base && tag < end && marks[slot(tag)] == .open, "a delivery is settled once")
    marks[slot(tag)] = mark
    if mark == .done { heldUpCount += 1 }
    advance(now: now)
  }

  private mutating func advance(now: Instant) {
    while base < end {
      switch marks[slot(base)] {
      case .open:
        return
      case .done:
        guard old.isEmpty else { return }
        acknowledgeable = base
        heldUpCount -= 1
        pendingCount += 1
        if pendingSince == nil { pendingSince = now }
      case .rejected:
        break
      }
      base += 1
    }
  }

  private func slot(_ tag: UInt64) -> Int {
    Int(truncatingIfNeeded: tag) & (marks.count - 1)
  }

  private mutating func grow() {
    var larger = [Mark](repeating: .open, count: marks.count * 2)
    var tag = base
    while tag < end {
      larger[Int(truncatingIfNeeded: tag) & (larger.count - 1)] = marks[slot(tag)]
      tag += 1
    }
    marks = larger
  }
}
