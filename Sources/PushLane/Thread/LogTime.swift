package import Foundation

/// The format of times in the log.
package enum LogTime {
  /// `2026-11-21T12:00:00.000Z`
  package static func text(_ time: Date) -> String {
    time.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
  }
}
