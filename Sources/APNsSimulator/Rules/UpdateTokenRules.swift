/// The update tokens of Live Activities that simulated devices have.
extension SimulatedDevices {
  /// APNs' refusal of a push to an update token that was made here; nil: it accepts.
  package func refusal(token: String, topic: String) -> SimulatedAnswer? {
    guard let activity = activity(updateToken: token) else { return nil }
    if topic != activity.app + ".push-type.liveactivity" { return .badRequest("DeviceTokenNotForTopic") }
    if activity.state == .dismissed {
      return SimulatedAnswer(status: 410, reason: "Unregistered", timestamp: activity.dismissalAt)
    }
    if activity.updateToken != token {
      return SimulatedAnswer(status: 410, reason: "Unregistered", timestamp: activity.registeredAt)
    }
    return nil
  }
}
