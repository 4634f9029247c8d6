import PushCore
import PushIO

/// Bytes of APNs, or of a server that poses as APNs, for a session with requests in flight. The first byte is the size of the pieces in
/// which they arrive (0: all at once); after each piece one more request is sent.
final class HTTP2ClientSubject: FuzzSubject {
  private static let streamsMaximum = 16
  private var headers = HTTP2HeaderList()
  private let body = Array("{\"aps\":{}}".utf8)

  init() {
    headers.append(.method, "POST")
    headers.append(.scheme, "https")
    headers.append(.authority, "api.push.apple.com")
    headers.append(.path, "/3/device/00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0")
  }

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    guard let first = bytes.first else { return }
    let session = HTTP2ClientSession(
      settings: HTTP2ClientSettings(maximumStreams: HTTP2ClientSubject.streamsMaximum))
    var out = ByteQueue()
    var sent: UInt32 = 0
    var waiting: Set<UInt32> = []
    session.open(into: &out)
    var position = 1
    while position < bytes.count {
      if session.submit(
        headers, body: body, bodyRange: 0..<body.count, ticket: Ticket(index: sent, generation: 1), into: &out)
      {
        waiting.insert(sent)
        sent += 1
      }
      try holds(session.streamsInFlight <= HTTP2ClientSubject.streamsMaximum, "streams are bounded")
      let count = min(first == 0 ? bytes.count : Int(first), bytes.count - position)
      session.receive(bytes.span.extracting(position..<position + count), into: &out)
      position += count
      try drain(session, &waiting)
      session.resume(into: &out)
      try holds(out.count <= 64 * bytes.count + 65_536, "answers do not outgrow what came: \(out.count)")
    }
    session.end(.aborted, unwrittenBytes: out.count)
    try drain(session, &waiting)
    try holds(waiting.isEmpty && session.streamsInFlight == 0, "each request is reported: \(waiting)")
  }

  private func drain(_ session: HTTP2ClientSession, _ waiting: inout Set<UInt32>) throws(FuzzFinding) {
    while let event = session.nextEvent() {
      switch event {
      case .response(let ticket, let status):
        try reported(ticket, &waiting)
        try holds((0...999).contains(status), "a status has three digits: \(status)")
        _ = session.withResponseBody { APNsResponseBody($0) }
        _ = session.withResponseHeader(.date) { HTTPDate.unixSeconds($0) }
        _ = session.withResponseHeader(.apnsUniqueID) { UUIDValue($0) }
      case .notProcessed(let ticket), .lost(let ticket, _): try reported(ticket, &waiting)
      case .goAway: session.withGoAwayReason { _ = APNsResponseBody($0) }
      case .opened, .settingsChanged, .pingAcknowledged, .closed: break
      }
    }
  }

  private func reported(_ ticket: Ticket, _ waiting: inout Set<UInt32>) throws(FuzzFinding) {
    try holds(waiting.remove(ticket.index) != nil, "a request is reported once: \(ticket.index)")
  }
}
