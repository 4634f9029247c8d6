package import PushCore

/// A client's HTTP/2 connection: a session on a transport. Its user submits requests and pulls events, once a turn.
package final class HTTP2ClientConnection: TransportDelegate {
  private let session: HTTP2ClientSession
  private let loop: EventLoop
  /// Set right after creation; a transport needs its delegate first.
  private var transport: Transport?
  private var delegateProxy: TransportDelegateProxy?
  private var isTransportClosed = false
  private let expectsALPN: Bool

  /// When bytes were last received.
  package private(set) var lastReceived: Instant
  /// When the oldest unanswered PING was sent.
  package private(set) var unansweredPingSince: Instant?

  /// Starts to connect; `.opened` or `.closed` follows.
  package static func connect(
    loop: EventLoop, to endpoint: Endpoint, tls: TLSContext?, options: ConnectOptions = ConnectOptions(),
    settings: HTTP2ClientSettings = HTTP2ClientSettings()
  ) -> HTTP2ClientConnection {
    let connection = HTTP2ClientConnection(loop: loop, expectsALPN: tls != nil, settings: settings)
    let delegateProxy = TransportDelegateProxy(of: connection)
    connection.delegateProxy = delegateProxy
    connection.transport = Transport.connect(
      loop: loop, to: endpoint, tls: tls, options: options, delegate: delegateProxy)
    return connection
  }

  /// Takes over a connected socket.
  package static func adopt(
    loop: EventLoop, fileDescriptor: Int32, tls: TLSContext?, options: ConnectOptions = ConnectOptions(),
    settings: HTTP2ClientSettings = HTTP2ClientSettings()
  ) -> HTTP2ClientConnection {
    let connection = HTTP2ClientConnection(loop: loop, expectsALPN: tls != nil, settings: settings)
    let delegateProxy = TransportDelegateProxy(of: connection)
    connection.delegateProxy = delegateProxy
    connection.transport = Transport.adopt(
      loop: loop, fileDescriptor: fileDescriptor, tls: tls, options: options, delegate: delegateProxy)
    return connection
  }

  private init(loop: EventLoop, expectsALPN: Bool, settings: HTTP2ClientSettings) {
    self.loop = loop
    self.expectsALPN = expectsALPN
    session = HTTP2ClientSession(settings: settings)
    lastReceived = loop.now.monotonic
  }

  deinit {
    // If the session ended, its transport is closing already and may have a GOAWAY to write.
    if !session.isEnded { transport?.abort() }
  }

  // MARK: - State

  package var isOpen: Bool { session.isOpen }
  /// It takes no more requests: one side sent GOAWAY, or it ended.
  package var isGoingAway: Bool { session.isGoingAway }
  /// It ended; its last events may still be unreported.
  package var isClosed: Bool { session.isEnded }
  /// Requests as the protocol counts them: submitted, and their streams not closed yet.
  package var streamsInFlight: Int { session.streamsInFlight }
  /// How many the server allows at once, at most our own maximum; 1 before its first SETTINGS.
  package var streamLimit: Int { session.streamLimit }
  /// How many requests can be submitted now.
  package var availableStreams: Int { session.availableStreams }
  /// Bytes of bodies that the server accepts now, on all streams together.
  package var sendWindow: Int { session.sendWindow }
  /// Bytes not written to the socket yet.
  package var queuedBytes: Int { transport?.pendingBytes ?? 0 }
  /// Half of all stream ids are used: replace the connection.
  package var shouldRotate: Bool { session.shouldRotate }
  package var peerDescription: String { transport?.peerDescription ?? "" }
  package var isResponseBodyCut: Bool { session.isResponseBodyCut }

  // MARK: - Requests

  /// Sends a request. `body` is retained until it is written, not copied; an empty range ends the stream with its headers. false: no stream
  /// is free, it is not open or going away, or too many bytes are unwritten.
  package func submit(
    _ headers: borrowing HTTP2HeaderList, body: [UInt8], bodyRange: Range<Int>, ticket: Ticket
  ) -> Bool {
    guard let transport else { return false }
    let isSent = session.submit(
      headers, body: body, bodyRange: bodyRange, ticket: ticket, into: &transport.outbound)
    written()
    return isSent
  }

  /// Cancels a request; it is reported as lost, with code CANCEL. false: it is unknown or already answered.
  package func cancel(_ ticket: Ticket) -> Bool {
    guard let transport else { return false }
    let isCancelled = session.cancel(ticket, into: &transport.outbound)
    written()
    return isCancelled
  }

  /// Sends a PING.
  package func ping() {
    guard let transport, session.isOpen else { return }
    if unansweredPingSince == nil { unansweredPingSince = loop.now.monotonic }
    session.ping(into: &transport.outbound)
    written()
  }

  /// Sends GOAWAY, finishes requests in flight, then closes.
  package func shutdown() {
    guard let transport, !session.isEnded else { return }
    if session.isOpen {
      session.shutdown(into: &transport.outbound)
      written()
    } else {
      session.end(nil, unwrittenBytes: 0)
      transport.close()
    }
  }

  /// Frees empty buffers and ended streams, for a connection that has had no requests for a while. The memory is allocated again when
  /// needed.
  package func releaseMemory() {
    guard session.isOpen, session.streamsInFlight == 0 else { return }
    session.releaseMemory()
    transport?.releaseMemory()
  }

  /// Closes at once: requests in flight are reported as lost.
  package func abort() {
    session.end(.aborted, unwrittenBytes: transport?.unwrittenBytes ?? 0)
    transport?.abort()
  }

  // MARK: - Events

  /// The next event; nil once everything of this turn is reported.
  package func nextEvent() -> HTTP2ClientEvent? {
    guard let event = session.nextEvent() else {
      resumeWriting()
      return nil
    }
    if case .pingAcknowledged = event { unansweredPingSince = nil }
    return event
  }

  /// The body of the last response, until the next event.
  package func withResponseBody<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    session.withResponseBody(body)
  }

  /// A header of the last response, until the next event; empty if it is absent or not kept.
  package func withResponseHeader<Result>(_ name: HTTP2HeaderName, _ body: (Span<UInt8>) -> Result) -> Result {
    session.withResponseHeader(name, body)
  }

  /// The debug data of the newest GOAWAY; empty if there was none.
  package func withGoAwayReason<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
    session.withGoAwayReason(body)
  }

  // MARK: - From the transport

  package func transportDidOpen(_ transport: Transport) {
    lastReceived = loop.now.monotonic
    if expectsALPN, transport.negotiatedProtocol != "h2" {
      session.end(.notNegotiated(protocol: transport.negotiatedProtocol), unwrittenBytes: 0)
      transport.abort()
      return
    }
    session.open(into: &transport.outbound)
    written()
  }

  package func transportDidReceive(_ transport: Transport) {
    lastReceived = loop.now.monotonic
    unsafe transport.inbound.withUnsafeBytes { unsafe session.receive($0, into: &transport.outbound) }
    // nghttp2 consumed everything; after the session's end, the rest is not needed.
    transport.inbound.removeAll()
    written()
  }

  /// No more answers will come: drop unwritten requests, and write nothing more.
  package func transportPeerDidEnd(_ transport: Transport, error: TransportError?) {
    endSession(of: transport, error)
    transport.abort()
  }

  package func transportDidClose(_ transport: Transport, error: TransportError?) {
    isTransportClosed = true
    endSession(of: transport, error)
  }

  private func endSession(of transport: Transport, _ error: TransportError?) {
    let reason: HTTP2Error? =
      if let error { .transport(error) } else if session.streamsInFlight > 0 { .closedByPeer } else { nil }
    session.end(reason, unwrittenBytes: transport.unwrittenBytes)
  }

  private func resumeWriting() {
    guard let transport, session.isOpen else { return }
    let before = transport.outbound.count
    session.resume(into: &transport.outbound)
    if transport.outbound.count != before || session.isEnded { written() }
  }

  /// The session may have written: sends, and closes if the session ended.
  private func written() {
    guard let transport, !isTransportClosed else { return }
    if !transport.outbound.isEmpty { transport.setNeedsFlush() }
    if session.isEnded { transport.close() }
  }
}
