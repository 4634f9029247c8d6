package import PushCore

/// Reported once per change, for the log.
package enum AdmissionNotice: Hashable, Sendable {
  /// The reason, and what decides instead.
  case degraded(reason: String)
  case recovered
  /// Redis owed an answer and was silent for a while: these admissions were decided without it.
  case silent(SilenceState.Stretch)
}

/// One notice for each change between working and degraded.
struct AdmissionNotices {
  private var isDegraded = false
  private var waiting: [AdmissionNotice] = []

  /// `trouble`: why it is degraded; nil: it works.
  mutating func note(trouble: String?) {
    if (trouble != nil) == isDegraded { return }
    isDegraded = trouble != nil
    waiting.append(trouble.map { .degraded(reason: $0) } ?? .recovered)
  }

  mutating func note(_ silence: SilenceState.Stretch) {
    waiting.append(.silent(silence))
  }

  mutating func next() -> AdmissionNotice? {
    waiting.isEmpty ? nil : waiting.removeFirst()
  }
}
