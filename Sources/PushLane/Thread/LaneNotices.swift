import Foundation
import Logging
package import PushCore

/// What a lane logs: a change, once. A subject that flaps is told about a few times a minute; what was held back meanwhile is told
/// later, as it was, with the time at which it happened.
package final class LaneNotices {
  private let quiet = LogNotices()
  /// By subject: its last change, while that is held back.
  private var held: [String: LaneNotice] = [:]

  package init() {}

  /// The line to log now; nil where there is none.
  package func report(_ notice: LaneNotice, _ now: Now) -> LaneNotice? {
    guard let told = quiet.report(notice.subject, notice.text, now: now.monotonic) else {
      held[notice.subject] = notice
      return nil
    }
    held[notice.subject] = nil
    return shown(notice, told)
  }

  /// What was held back and may be told now. Asked every few seconds.
  package func due(_ now: Now) -> [LaneNotice] {
    quiet.due(now: now.monotonic).map { told in
      var notice = shown(held[told.subject] ?? LaneNotice(.info, told.subject, told.state), told)
      held[told.subject] = nil
      let since = now.unixMilliseconds - now.monotonic.milliseconds(since: told.changedAt)
      notice.metadata["since"] = "\(LogTime.text(Date(timeIntervalSince1970: Double(since) / 1000)))"
      return notice
    }
  }

  private func shown(_ notice: LaneNotice, _ told: LogNotices.Notice) -> LaneNotice {
    var shown = notice
    if told.suppressed > 0 { shown.metadata["kept_quiet"] = .stringConvertible(told.suppressed) }
    return shown
  }
}
