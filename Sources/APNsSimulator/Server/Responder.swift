import PushCore
import PushIO

/// Writes answers. Its header lists are reused: an ordinary acceptance allocates nothing.
final class Responder {
  private var headers = HTTP2HeaderList()
  /// `:status 200`, followed by the request's fields.
  private var acceptance = HTTP2HeaderList()
  /// The simulated Apple's time, and its text in answers.
  private(set) var unixSeconds: Int64 = 0
  private var date: [UInt8] = []

  init() {
    acceptance.append(.status, "200")
    tell(unixSeconds: 0)
  }

  /// Sets the time of later answers. Its text is made once a second.
  func tell(unixSeconds: Int64) {
    if unixSeconds == self.unixSeconds, !date.isEmpty { return }
    self.unixSeconds = unixSeconds
    date = HTTPDate.bytes(unixSeconds: max(0, unixSeconds))
  }

  /// Sends a complete answer; false: the stream has ended.
  @discardableResult
  func answer(
    _ stream: HTTP2StreamID, _ answer: SimulatedAnswer, _ bodyForm: FaultEffect.BodyForm?,
    on http: HTTP2ServerConnection
  ) -> Bool {
    var options = HTTP2ResponseOptions()
    var body = answer.bytes
    switch bodyForm {
    case nil, .whole: break
    case .missing: body = []
    case .split(let count): options.dataFrameBytes = count
    case .raw(let text): body = Array(text.utf8)
    }
    headers.removeAll()
    headers.append(.status, decimal: answer.status)
    let date = date
    headers.append(.date, date.span)
    if !body.isEmpty { headers.append(.contentType, "application/json") }
    for field in answer.fields { headers.append(name: field.name.utf8.span, value: field.value.utf8.span) }
    return http.respond(stream, headers, body: body, options: options)
  }

  /// Accepts a notification that needs no further checks; false: it needs them.
  /// - Parameter isDated: adds the `date` header. It costs time, so the fast mode sends it once a second on each connection.
  func acceptFast(
    _ stream: HTTP2StreamID, on http: HTTP2ServerConnection, _ state: inout SimulatorState, countsIdentifiers: Bool,
    isDated: Bool
  ) -> Bool {
    let isPlain = http.withHeader(.path, of: stream) { path in Responder.isPlain(path, state.plan.prefixes) }
    guard isPlain, http.bodyCount(of: stream) > 0 else { return false }
    acceptance.truncate(to: 1)
    if isDated {
      let date = date
      acceptance.append(.date, date.span)
    }
    http.withHeader(.apnsID, of: stream) { id in
      if id.count == 36 { acceptance.append(.apnsID, id, isIndexed: false) }
      state.ledger.recordAccepted(apnsID: id, countsIdentifiers: countsIdentifiers)
    }
    _ = http.respond(stream, acceptance)
    return true
  }

  /// Whether this is the path of a device whose token has no special meaning.
  private static func isPlain(_ path: Span<UInt8>, _ prefixes: borrowing TokenPrefixTable) -> Bool {
    let start = 10
    guard path.count >= start + 8, path.count <= start + 256, path.extracting(first: start).equals("/3/device/") else {
      return false
    }
    return prefixes.rule(for: path.extracting(droppingFirst: start)) == nil
  }
}
