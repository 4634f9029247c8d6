/// A simulated device's registration: an activity's update token, or its end on the device. Version 1 of a worker's
/// registrations, kind `activity`.
package struct ActivityRegistration: Hashable, Sendable {
  /// Unix milliseconds.
  package var at: Int64
  package var app: String
  /// `production` or `sandbox`.
  package var environment: String
  package var device: String
  package var activity: String
  /// Empty: the activity ended on this device.
  package var token: String

  package var bytes: [UInt8] {
    var json = JSONText()
    json.beginObject()
    json.field("version", 1)
    json.field("kind", "activity")
    json.field("at", at)
    json.field("app", app)
    json.field("environment", environment)
    json.field("device", device)
    json.field("activity", activity)
    json.field("token", token)
    json.endObject()
    return json.bytes
  }
}
