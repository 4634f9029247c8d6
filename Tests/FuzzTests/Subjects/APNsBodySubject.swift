import PushCore
import PushIO

/// The body of an error answer, and the texts of its headers.
final class APNsBodySubject: FuzzSubject {
  init() {}

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    _ = HTTPDate.unixSeconds(bytes.span)
    _ = UUIDValue(bytes.span)
    let body = APNsResponseBody(bytes.span)
    guard let reason = body.reason else { return }
    try holds(reason.name.utf8.count <= 64, "a reason is bounded")
    try holds(reason.name.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }, "a reason is printable")
    // An empty one comes back as none.
    guard !reason.name.isEmpty else { return }
    try isHandedOnAsText(reason)
    let outcome = RememberedOutcome(
      outcome: .rejected, status: 400, reason: reason, unregisteredAt: body.timestamp, attempts: 1, sentAt: 1,
      completedAt: 2)
    var output: [UInt8] = []
    outcome.encode(into: &output)
    try holds(RememberedOutcome(decoding: output.span) == outcome, "an answer survives Redis: \(outcome)")
  }

  /// An outcome with this reason is valid JSON and has the same reason.
  private func isHandedOnAsText(_ reason: APNsReason) throws(FuzzFinding) {
    let record = OutcomeRecord(
      outcome: .rejected, reason: reason, attempts: 1, receivedAt: 1, sentAt: nil, completedAt: 2)
    let job = PushJob()
    var output: [UInt8] = []
    OutcomeWriter(worker: "fuzz/0").append(
      record, of: job, target: nil, apnsID: UUIDValue(high: 1, low: 2), to: &output)
    var text: [UInt8] = []
    do throws(JSONError) {
      var scanner = JSONScanner()
      var hasMember = try scanner.beginObject(output.span)
      while hasMember {
        let name = try scanner.key(output.span)
        let isReason = output.span.extracting(name.range.range).equals("reason")
        if isReason {
          text = JSONEscape.unescaped(try scanner.string(output.span).range, of: output.span)
        } else {
          try scanner.skipValue(output.span)
        }
        hasMember = try scanner.nextMember(output.span)
      }
      try scanner.end(output.span)
    } catch {
      throw FuzzFinding("an outcome is JSON: \(error) for \(reason)")
    }
    try holds(text == Array(reason.name.utf8), "a reason is handed on as text: \(reason)")
  }
}
