/// `log.format`: how a line of the log looks.
package enum LogFormat: String, Sendable {
  /// Text on a terminal, JSON elsewhere.
  case auto
  case json
  case text
}
