/// Where a job stands among the updates and ends of its activity, or among those with its collapse id, as exactly as its producer said it.
/// The newest one decides what devices show, whichever comes first; where two are as new as each other, the one that comes last.
///
/// All jobs are on one scale, Unix microseconds, because the order would not be one otherwise: with a rule for each pair of kinds, three
/// jobs could each be older than the next. A `sequence` is a point on it. An AMQP timestamp says only in which second the job was
/// published: it is older than what is later than that second, and newer than what is before it. A job with neither is as new as its arrival,
/// also where it waited since.
package struct JobOrder: Hashable, Sendable {
  /// Unix microseconds.
  package let earliest: Int64
  package let latest: Int64

  /// Unix seconds, in the year 2242. A producer that writes milliseconds says nothing about the second; taken as one, it would be newer than
  /// all others for good.
  private static let timestampMaximum: Int64 = 1 << 33

  /// As new as its arrival.
  package static let arrival = JobOrder(earliest: 0, latest: .max)

  private init(earliest: Int64, latest: Int64) {
    self.earliest = earliest
    self.latest = latest
  }

  /// - Parameters:
  ///   - sequence: of the job.
  ///   - timestamp: of its message, Unix seconds; an impossible one counts as none.
  ///   - waitedSince: when it arrived, Unix milliseconds; nil: just now.
  package init(sequence: Int64?, timestamp: Int64?, waitedSince: Int64? = nil) {
    if let sequence {
      self.init(earliest: sequence, latest: sequence)
    } else if let timestamp, 1...JobOrder.timestampMaximum ~= timestamp {
      let start = timestamp * 1_000_000
      self.init(earliest: start, latest: start + 999_999)
    } else if let waitedSince {
      let start = JobOrder.microseconds(waitedSince)
      self.init(earliest: start, latest: start + 999)
    } else {
      self = .arrival
    }
  }

  /// - Parameter milliseconds: Unix.
  private static func microseconds(_ milliseconds: Int64) -> Int64 {
    min(max(0, milliseconds), JobOrder.timestampMaximum * 1_000) * 1_000
  }

  /// It has a number of its own: others have come too late only if theirs is smaller.
  package var isNumbered: Bool { earliest == latest }

  /// Whether it is surely older than the job that has this place.
  package func isOlder(than place: Int64) -> Bool { latest < place }

  /// Its place once it is the newest job, after the one that was.
  /// - Parameter now: when it arrived, Unix milliseconds; counts only if nothing else says how new it is.
  package func place(after newest: Int64, now: Int64) -> Int64 {
    max(self == .arrival ? JobOrder.microseconds(now) : earliest, newest)
  }
}
