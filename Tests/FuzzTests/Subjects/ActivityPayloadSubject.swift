import PushCore

/// A Live Activity's payload as a producer may write it, and what Herald writes into it.
final class ActivityPayloadSubject: FuzzSubject {
  private let id: ActivityID
  private let attribute: ActivityIDAttribute

  init() throws(FuzzFinding) {
    guard let id = ActivityID("ride-\"17\""), let attribute = ActivityIDAttribute("a.b") else {
      throw FuzzFinding("an id and an attribute are right")
    }
    self.id = id
    self.attribute = attribute
  }

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    var edits = ActivityEdits(timestamp: 1_796_000_000)
    edits.id = (id, attribute)
    edits.contentState = Array("{}".utf8)
    edits.staleAfterSeconds = 60
    edits.inputPushChannel = bytes.count % 2 == 0 ? "T25l" : nil
    guard let (edited, event) = try edit(bytes, edits) else { return }
    try holds(isJSON(bytes), "a payload that is taken is JSON")
    try holds(isJSON(edited), "an edited payload is JSON")
    edits.inputPushChannel = nil
    let again = try edit(edited, edits)
    try holds(again?.bytes == edited && again?.event == event, "what was written is there")
  }

  /// nil: the payload is refused.
  private func edit(
    _ bytes: [UInt8], _ edits: ActivityEdits
  ) throws(FuzzFinding) -> (bytes: [UInt8], event: ActivityEvent)? {
    let fault: JobError
    do throws(JobError) {
      let payload = try ActivityPayload(bytes)
      return (try payload.edited(edits), payload.event)
    } catch {
      fault = error
    }
    try holds(!fault.field.isEmpty && !fault.rule.isEmpty, "an error names field and rule")
    return nil
  }
}
