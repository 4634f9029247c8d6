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
    let outcome = RememberedOutcome(
      outcome: .rejected, status: 400, reason: reason, unregisteredAt: body.timestamp, attempts: 1, sentAt: 1,
      completedAt: 2)
    var output: [UInt8] = []
    outcome.encode(into: &output)
    try holds(RememberedOutcome(decoding: output.span) == outcome, "an answer survives Redis: \(outcome)")
  }
}
