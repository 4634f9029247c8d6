/// What an API key may do.
package enum KeyScope: String, CaseIterable, Hashable, Codable, Sendable {
  /// Send jobs and Live Activities; pause, resume and cancel jobs.
  case send
  /// Register devices, delete users.
  case register
  /// Read jobs' progress, activities and outcomes.
  case read
  /// Manage segments, and everything that the other scopes allow.
  case admin
}
