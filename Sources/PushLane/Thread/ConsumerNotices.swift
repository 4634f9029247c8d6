package import Logging
package import PushCore

/// What a consumer beside the lanes logs: of its connections each change once, as `LaneNotices` says, and everything else at once.
package final class ConsumerNotices {
  private static let lookMilliseconds: Int64 = 1_000

  private let quiet = LaneNotices()
  private let subjects: [String]
  private let log: (Logger.Level, String) -> Void
  private var nextLook: Instant?

  /// - Parameter subjects: how the texts about connections begin.
  package init(subjects: [String], log: @escaping (Logger.Level, String) -> Void) {
    self.subjects = subjects
    self.log = log
  }

  package func report(_ level: Logger.Level, _ text: String, now: Now) {
    guard let subject = subjects.first(where: { text.hasPrefix($0) }) else { return log(level, text) }
    if let notice = quiet.report(LaneNotice(level, subject, text), now) { log(notice.level, notice.text) }
  }

  /// Logs the last state of what changed too often, once that may be logged. Called in each turn.
  package func turn(now: Now) {
    if let nextLook, now.monotonic < nextLook { return }
    nextLook = now.monotonic.adding(milliseconds: ConsumerNotices.lookMilliseconds)
    for notice in quiet.due(now) {
      let since = notice.metadata["since"].map { " (since \($0))" } ?? ""
      log(notice.level, notice.text + since)
    }
  }
}
