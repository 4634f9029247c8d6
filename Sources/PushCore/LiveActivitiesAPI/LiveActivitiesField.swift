/// A field that is ignored although the request is accepted. The value is a metric's label.
package enum LiveActivitiesField: String, CaseIterable, Sendable {
  /// In a start or an update: only an end uses it.
  case dismissalDate = "dismissal-date"
  /// In an end.
  case staleDate = "stale-date"
  /// In an update or an end: only a start uses them.
  case content, title
  /// In an update or an end that names its activity.
  case pushTokens = "live_activity_push_tokens"
  /// In a device's registration, with an invalid value.
  case language, timezone
  case osVersion = "os_version"
}
