/// An error in a request that is valid JSON, as a sentence for its sender.
struct LiveActivitiesFault: Error, Hashable {
  var message: String

  init(_ message: String) {
    self.message = message
  }

  /// - Parameter path: the field; empty: the whole request.
  init(_ path: String, _ rule: String) {
    message = "\(path.isEmpty ? "the request" : path) \(rule)"
  }

  static let application = LiveActivitiesFault("Application not found")
  static let account = LiveActivitiesFault("Account not found")
  static let noNotifications = LiveActivitiesFault("No notifications")
}
