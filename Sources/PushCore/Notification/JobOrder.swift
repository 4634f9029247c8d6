/// Where a job stands among the updates and ends of its activity, or among those with its collapse id, as exactly as its producer said it.
/// The newest one decides what devices show, whichever comes first; where two are as new as each other, the one that comes last.
///
/// All jobs are on one scale, Unix microseconds, because the order would not be one otherwise: with a rule for each pair of kinds, three
/// jobs could each be older than the next. A `sequence` is a point on it. Each other job gets a point where it is first received
/// (`OrderPoints`), which all its copies carry. Until it waits somewhere it is as new as it may be: an AMQP timestamp says only in which
/// second it was published, and one without is as new as any. A copy that waited is as new as its point, or it would win over what came
/// meanwhile.
package struct JobOrder: Hashable, Sendable {
  /// Unix microseconds.
  package let earliest: Int64
  package let latest: Int64
  /// It has a number of its own: others have come too late only if theirs is smaller.
  package let isNumbered: Bool

  /// How a message came.
  package enum Way: Sendable {
    /// From its producer.
    case first
    /// Made of a job that another worker received, whose clock may differ by a little.
    case made
    /// From a queue where it waited, or from its lane's.
    case returning
  }

  /// Unix seconds, in the year 2242. A producer that writes milliseconds says nothing about the second; taken as one, it would be newer than
  /// all others for good.
  private static let timestampMaximum: Int64 = 1 << 33

  /// Microseconds: each process goes by Redis' clock from 20 ms on (`WallClockState`).
  private static let clockDifference: Int64 = 40_000

  /// As new as any.
  package static let arrival = JobOrder(earliest: 0, latest: .max)

  private init(earliest: Int64, latest: Int64, isNumbered: Bool = false) {
    self.earliest = earliest
    self.latest = latest
    self.isNumbered = isNumbered
  }

  /// - Parameters:
  ///   - sequence: of the job.
  ///   - timestamp: of its message, Unix seconds; an impossible one counts as none.
  ///   - point: where it was first received, Unix microseconds (`OrderPoints`); 0: not known, and it is as new as any.
  package init(sequence: Int64?, timestamp: Int64?, point: Int64, way: Way = .first) {
    if let sequence {
      self.init(earliest: sequence, latest: sequence, isNumbered: true)
      return
    }
    let point = JobOrder.bounded(point)
    guard point > 0 else {
      self = .arrival
      return
    }
    let end = JobOrder.start(ofSecond: timestamp).map { $0 + 999_999 }
    switch way {
    case .first: self.init(earliest: point, latest: end.map { max($0, point) } ?? .max)
    case .made:
      // A page's timestamp is its own, and not its job's.
      let isOfItsSecond = end.map { $0 - 999_999...$0 ~= point } ?? false
      let latest = point + JobOrder.clockDifference
      self.init(earliest: point, latest: isOfItsSecond ? min(latest, end ?? latest) : latest)
    case .returning: self.init(earliest: point, latest: point)
    }
  }

  /// Microseconds; nil: it says nothing.
  static func start(ofSecond timestamp: Int64?) -> Int64? {
    guard let timestamp, 1...timestampMaximum ~= timestamp else { return nil }
    return timestamp * 1_000_000
  }

  /// Anybody can write a header.
  static func bounded(_ point: Int64) -> Int64 { min(max(0, point), timestampMaximum * 1_000_000) }

  /// Whether it is surely older than the job that has this place.
  package func isOlder(than place: Int64) -> Bool { latest < place }

  /// Its place once it is the newest job, after the one that was.
  package func place(after newest: Int64) -> Int64 { max(earliest, newest) }
}

/// Gives the jobs that one consumer receives their points on the scale of `JobOrder`: when each was received, within the second of its
/// timestamp if it has one, and newer than the one before of that second. Consumers agree on which of two is newer, unless they take a
/// backlog of more than one of a second in a millisecond.
package struct OrderPoints: Sendable {
  /// A point is newer than the one before, or the clock was set back by more than this, in microseconds.
  private static let stepMaximum: Int64 = 1_000_000
  /// The end of a second, microseconds, for the jobs that come after it: half of it by how late they are, and a backlog of as many.
  private static let tail: Int64 = 200_000
  /// From this on, milliseconds, it tells less exactly how late a job is.
  private static let exactMilliseconds: Int64 = 50_000
  /// How many seconds it knows.
  private static let places = 1_024

  /// The newest arrival's.
  private var arrival: Int64 = 0
  /// The newest of the seconds that timestamps named, each in the place of its number: the clocks of producers differ, and some write when
  /// something happened.
  private var newest = [Int64](repeating: 0, count: OrderPoints.places)
  /// The same of jobs that came after their second.
  private var newestLate = [Int64](repeating: 0, count: OrderPoints.places)

  package init() {}

  /// - Parameters:
  ///   - timestamp: of its message, Unix seconds; an impossible one counts as none.
  ///   - receivedAt: Unix milliseconds; nil: nobody has told the time yet, and this machine's clock may be hours off.
  /// - Returns: Unix microseconds; 0: not known.
  package mutating func next(timestamp: Int64?, receivedAt: Int64?) -> Int64 {
    let arrival = receivedAt.map { arrived($0) }
    guard let start = JobOrder.start(ofSecond: timestamp) else { return arrival ?? 0 }
    let elapsed = arrival.map { $0 - start } ?? 1_000_000
    let place = Int(start / 1_000_000 % Int64(Self.places))
    let tail = start + 1_000_000 - Self.tail
    if elapsed < 1_000_000 {
      let point = start + Self.offset(ofElapsed: max(0, elapsed))
      newest[place] = start...tail ~= newest[place] ? min(max(point, newest[place] + 1), tail - 1) : point
      return newest[place]
    }
    // A later second begins anew: points that only grow would differ between consumers, and run out.
    let next = newestLate[place] < start ? 0 : start + newestLate[place] % 1_000_000 + 1
    newestLate[place] = min(max(tail + Self.offset(ofLate: elapsed / 1_000 - 1_000), next), start + 999_999)
    return newestLate[place]
  }

  /// Of a job that is received within its second, so many microseconds after its beginning. Those of one millisecond stay apart.
  private static func offset(ofElapsed elapsed: Int64) -> Int64 {
    let step = (1_000_000 - tail) / 1_000
    return elapsed / 1_000 * step + min(elapsed % 1_000, step - 1)
  }

  /// Microseconds in the tail for a job so many milliseconds late.
  private static func offset(ofLate late: Int64) -> Int64 {
    let half = tail / 4
    return late < exactMilliseconds ? late * half / exactMilliseconds : half + half * (late - exactMilliseconds) / late
  }

  private mutating func arrived(_ milliseconds: Int64) -> Int64 {
    let now = JobOrder.bounded(milliseconds.multipliedReportingOverflow(by: 1_000).partialValue)
    arrival = now > arrival || now < arrival - Self.stepMaximum ? now : JobOrder.bounded(arrival + 1)
    return arrival
  }
}
