/// What an API key may do.
package enum KeyScope: String, CaseIterable, Hashable, Codable, Sendable {
  /// Jobs, also for Live Activities.
  case send
  /// Devices and users.
  case register
  /// Progress, activities, outcomes.
  case read
  /// Segments, and everything that the others may.
  case admin
}
