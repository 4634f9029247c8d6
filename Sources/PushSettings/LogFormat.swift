/// `log.format`: the format of log lines.
package enum LogFormat: String, Sendable {
  /// Text on a terminal, JSON elsewhere.
  case auto
  case json
  case text
}
