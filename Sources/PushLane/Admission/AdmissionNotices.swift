/// Reported once per change, for the log.
package enum AdmissionNotice: Hashable, Sendable {
  /// Why, and what decides instead.
  case degraded(reason: String)
  case recovered
}

/// One notice for each change between whole and degraded.
struct AdmissionNotices {
  private var isDegraded = false
  private var waiting: [AdmissionNotice] = []

  /// `trouble`: why it is degraded; nil: it is whole.
  mutating func note(trouble: String?) {
    if (trouble != nil) == isDegraded { return }
    isDegraded = trouble != nil
    waiting.append(trouble.map { .degraded(reason: $0) } ?? .recovered)
  }

  mutating func next() -> AdmissionNotice? {
    waiting.isEmpty ? nil : waiting.removeFirst()
  }
}
