import Foundation
import Logging
package import PushCore

/// What a lane logs: each change once. A subject that flaps is logged a few times a minute; suppressed changes are logged later, unchanged,
/// with the time at which they happened.
package final class LaneNotices {
  private let quiet = LogNotices()
  /// By subject: its last change, while it is suppressed.
  private var held: [String: LaneNotice] = [:]

  package init() {}

  /// The line to log now; nil if there is none.
  package func report(_ notice: LaneNotice, _ now: Now) -> LaneNotice? {
    let state = notice.isEvent ? "\(now.monotonic.nanoseconds) \(notice.text)" : notice.text
    guard let logged = quiet.report(notice.subject, state, now: now.monotonic) else {
      held[notice.subject] = notice
      return nil
    }
    held[notice.subject] = nil
    return shown(notice, logged)
  }

  /// Suppressed changes that may be logged now. Called every few seconds.
  package func due(_ now: Now) -> [LaneNotice] {
    quiet.due(now: now.monotonic).map { logged in
      var notice = shown(held[logged.subject] ?? LaneNotice(.info, logged.subject, logged.state), logged)
      held[logged.subject] = nil
      let since = now.unixMilliseconds - now.monotonic.milliseconds(since: logged.changedAt)
      notice.metadata["since"] = "\(LogTime.text(Date(timeIntervalSince1970: Double(since) / 1000)))"
      return notice
    }
  }

  private func shown(_ notice: LaneNotice, _ logged: LogNotices.Notice) -> LaneNotice {
    var shown = notice
    if logged.suppressed > 0 { shown.metadata["kept_quiet"] = .stringConvertible(logged.suppressed) }
    return shown
  }
}
