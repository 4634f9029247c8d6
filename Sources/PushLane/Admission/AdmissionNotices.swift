/// Reported once per change, for the log.
package enum AdmissionNotice: Hashable, Sendable {
  /// The reason, and what decides instead.
  case degraded(reason: String)
  case recovered
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

  mutating func next() -> AdmissionNotice? {
    waiting.isEmpty ? nil : waiting.removeFirst()
  }
}
