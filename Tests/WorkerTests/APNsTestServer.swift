import PushCore
import PushIO

/// A scripted APNs on the service's own loop: it records requests, and a test decides when and what it answers.
final class APNsTestServer: ListenerDelegate {
  /// A request as it came.
  struct Request {
    let connection: Int
    let stream: HTTP2StreamID
    var method = ""
    var path = ""
    var authorization = ""
    var apnsID = ""
    var topic = ""
    var pushType = ""
    var priority = ""
    var expiration = ""
    var collapseID = ""
    var channelID = ""
    var requestID = ""
    var authority = ""
    var body = ""
  }

  private let loop: EventLoop
  private let tls: TLSContext?
  private let settings: HTTP2ServerSettings
  private(set) var listener: Listener?
  private(set) var connections: [HTTP2ServerConnection] = []
  private(set) var requests: [Request] = []
  /// Called for each request; nil answers 200 at once.
  var answer: ((APNsTestServer, Request) -> Void)?
  /// The `date` of every answer; empty: none.
  var date = ""
  /// Called for each accepted connection.
  var accepted: ((HTTP2ServerConnection) -> Void)?
  private var headers = HTTP2HeaderList()

  init(loop: EventLoop, tls: TLSContext?, settings: HTTP2ServerSettings = HTTP2ServerSettings()) throws {
    self.loop = loop
    self.tls = tls
    self.settings = settings
    listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: self)
  }

  var port: UInt16 { listener?.port ?? 0 }

  func stopListening() {
    listener?.close()
    listener = nil
  }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    let connection = HTTP2ServerConnection.adopt(
      loop: loop, fileDescriptor: fileDescriptor, tls: tls, settings: settings)
    connections.append(connection)
    accepted?(connection)
  }

  /// Once a turn: takes requests and answers them.
  func turn() {
    for (index, connection) in connections.enumerated() {
      while let event = connection.nextEvent() {
        guard case .request(let stream) = event else { continue }
        let request = read(connection, index, stream)
        requests.append(request)
        if let answer { answer(self, request) } else { respond(request) }
      }
    }
  }

  func respond(_ request: Request, status: Int = 200, body: String = "", uniqueID: String = "") {
    headers.removeAll()
    headers.append(.status, decimal: status)
    let id = Array(request.apnsID.utf8)
    headers.append(.apnsID, id.span)
    let unique = Array(uniqueID.utf8)
    if !uniqueID.isEmpty { headers.append(.apnsUniqueID, unique.span) }
    let dateBytes = Array(date.utf8)
    if !date.isEmpty { headers.append(.date, dateBytes.span) }
    _ = connections[request.connection].respond(request.stream, headers, body: Array(body.utf8))
  }

  private func read(_ connection: HTTP2ServerConnection, _ index: Int, _ stream: HTTP2StreamID) -> Request {
    func value(_ name: HTTP2HeaderName) -> String {
      connection.withHeader(name, of: stream) { APNsTestServer.text($0) }
    }
    return Request(
      connection: index, stream: stream, method: value(.method), path: value(.path),
      authorization: value(.authorization),
      apnsID: value(.apnsID), topic: value(.apnsTopic), pushType: value(.apnsPushType), priority: value(.apnsPriority),
      expiration: value(.apnsExpiration), collapseID: value(.apnsCollapseID), channelID: value(.apnsChannelID),
      requestID: value(.apnsRequestID), authority: value(.authority),
      body: connection.withBody(of: stream) { APNsTestServer.text($0) })
  }

  private static func text(_ bytes: Span<UInt8>) -> String {
    var copy: [UInt8] = []
    for index in bytes.indices { copy.append(bytes[index]) }
    return String(decoding: copy, as: UTF8.self)
  }
}
