import PushCore

/// The jobs for audiences of which a lane has pages in flight, and whether these may be sent. A page asks when its devices are looked up;
/// while it waits to be sent, the lane asks again for all pages of its job at once, so that a pause or a cancellation holds within a second
/// for each device that is not on the wire.
struct AudienceTable: ~Copyable {
  fileprivate struct Entry {
    let job: AudienceID
    var standing = AudienceStanding.running
    /// Pages, and copies of parts of them; 0: the entry is free.
    var pageCount = 0
    var knownAt = Instant(nanoseconds: 0)
    var isAsked = false
  }

  private var entries: [Entry] = []
  private var free: [Int] = []
  private var indexes: [AudienceID: Int] = [:]
  /// Until then no job is asked about again.
  private var quietUntil = Instant(nanoseconds: 0)
  /// The next entry to look at, and when the first of those before it is due.
  private var nextIndex = 0
  private var nextDue: Instant?

  /// What is known of a job longer than this is asked again. With the answer's time well below a second.
  static let ageMilliseconds: Int64 = 400

  init() {}

  /// A page of the job has targets from here on. Returns the entry's index.
  mutating func enter(_ job: AudienceID, _ standing: AudienceStanding, _ now: Now) -> Int {
    let index: Int
    if let known = indexes[job] {
      index = known
    } else {
      index = free.popLast() ?? entries.count
      if index == entries.count { entries.append(Entry(job: job)) } else { entries[index] = Entry(job: job) }
      indexes[job] = index
    }
    entries[index].pageCount += 1
    entries[index].learn(standing, now)
    quietUntil = min(quietUntil, now.monotonic.adding(milliseconds: AudienceTable.ageMilliseconds))
    return index
  }

  /// A page of the job is gone.
  mutating func leave(_ index: Int) {
    entries[index].pageCount -= 1
    guard entries[index].pageCount == 0 else { return }
    indexes[entries[index].job] = nil
    free.append(index)
  }

  subscript(index: Int) -> AudienceStanding { entries[index].standing }

  /// A page of the job was looked up that has no targets.
  mutating func learn(_ job: AudienceID, _ standing: AudienceStanding, _ now: Now) {
    guard let index = indexes[job] else { return }
    entries[index].learn(standing, now)
  }

  /// The answer to `nextQuestion`; nil: nobody can say now, and the pages go on as before.
  mutating func learn(_ index: Int, _ job: AudienceID, _ standing: AudienceStanding?, _ now: Now) {
    guard index < entries.count, entries[index].pageCount > 0, entries[index].job == job else { return }
    entries[index].learn(standing ?? entries[index].standing, now)
  }

  /// The next job to ask about in this turn.
  mutating func nextQuestion(_ now: Now) -> (index: Int, job: AudienceID)? {
    guard now.monotonic >= quietUntil else { return nil }
    while nextIndex < entries.count {
      let index = nextIndex
      nextIndex += 1
      guard entries[index].pageCount > 0, !entries[index].isAsked else { continue }
      let next = entries[index].knownAt.adding(milliseconds: AudienceTable.ageMilliseconds)
      if next <= now.monotonic {
        entries[index].isAsked = true
        return (index, entries[index].job)
      }
      nextDue = min(nextDue ?? next, next)
    }
    quietUntil = nextDue ?? now.monotonic.adding(milliseconds: AudienceTable.ageMilliseconds)
    (nextIndex, nextDue) = (0, nil)
    return nil
  }
}

extension AudienceTable.Entry {
  fileprivate mutating func learn(_ standing: AudienceStanding, _ now: Now) {
    self.standing = standing
    knownAt = now.monotonic
    isAsked = false
  }
}
