/// One request to the control port.
struct ControlRequest: Sendable {
  var method: String
  var path: String
  var body: String
}
