import PushCore

/// `/activities`: the Live Activities on simulated devices.
enum ControlActivities {
  static func list(_ state: inout SimulatorState) -> ControlResponse {
    state.countActivities()
    var json = JSONText()
    json.beginObject()
    json.key("counts")
    state.ledger.activities.write(to: &json)
    json.key("activities")
    json.beginArray()
    for activity in state.service.activities.all { activity.write(to: &json) }
    json.endArray()
    json.endObject()
    return ControlResponse(json: json)
  }

  /// Reads `swipe DEVICE ID`, where the device `*` means all and the id is the rest of the line. Returns on how many
  /// devices.
  static func act(_ line: String, _ state: inout SimulatorState, now: Now) throws(FaultSyntaxError) -> Int {
    let words = line.split(separator: " ", maxSplits: 2).map(String.init)
    guard words.count == 3, words[0] == "swipe" else {
      throw FaultSyntaxError(word: line, rule: "swipe, a device or *, and an activity's id")
    }
    return state.service.activities.swipe(activity: words[2], device: words[1] == "*" ? nil : words[1], now: now)
  }

  /// Names the device of a push-to-start token.
  static func name(_ device: String, _ token: String, _ state: inout SimulatorState) throws(FaultSyntaxError) {
    guard (1...128).contains(device.utf8.count) else {
      throw FaultSyntaxError(word: "device=" + device, rule: "an id of 1 to 128 bytes")
    }
    guard state.service.activities.setDevice(device, of: token) else {
      throw FaultSyntaxError(word: token, rule: "fewer named devices: there are \(SimulatedDevices.namesMaximum)")
    }
  }
}
