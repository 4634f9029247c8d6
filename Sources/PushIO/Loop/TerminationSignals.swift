import Glibc

/// What SIGTERM and SIGINT do to this process.
package enum TerminationSignals {
  /// Both end the process at once, whatever handlers were installed.
  package static func restoreDefaults() {
    _ = signal(SIGTERM, SIG_DFL)
    _ = signal(SIGINT, SIG_DFL)
  }
}
