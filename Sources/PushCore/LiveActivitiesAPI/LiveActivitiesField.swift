/// A request's field that has no effect where it stands, but for which the request is not refused: a metric's label.
package enum LiveActivitiesField: String, CaseIterable, Sendable {
  /// Of a start or an update: only an end has it.
  case dismissalDate = "dismissal-date"
  /// Of an end.
  case staleDate = "stale-date"
  /// Of an update: only a start has an alert of its own.
  case content, title
  /// Of an update that names its activity.
  case pushTokens = "live_activity_push_tokens"
  /// Of a device: not understood.
  case language, timezone
  case osVersion = "os_version"
}
