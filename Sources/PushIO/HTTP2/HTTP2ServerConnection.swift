/// A server's HTTP/2 connection: a session on a transport. Its user pulls requests, answers them at any time, and can cause faults.
package final class HTTP2ServerConnection: TransportDelegate {
  private let session: HTTP2ServerSession
  /// Set right after creation; a transport needs its delegate first.
  private var transport: Transport?
  private var delegateProxy: TransportDelegateProxy?
  private var isTransportClosed = false
  private let expectsALPN: Bool

  /// Takes over an accepted socket; `.opened` or `.closed` follows.
  package static func adopt(
    loop: EventLoop, fileDescriptor: Int32, tls: TLSContext?, options: ConnectOptions = ConnectOptions(),
    settings: HTTP2ServerSettings = HTTP2ServerSettings()
  ) -> HTTP2ServerConnection {
    let connection = HTTP2ServerConnection(expectsALPN: tls != nil, settings: settings)
    let delegateProxy = TransportDelegateProxy(of: connection)
    connection.delegateProxy = delegateProxy
    connection.transport = Transport.adopt(
      loop: loop, fileDescriptor: fileDescriptor, tls: tls, options: options, delegate: delegateProxy)
    return connection
  }

  private init(expectsALPN: Bool, settings: HTTP2ServerSettings) {
    self.expectsALPN = expectsALPN
    session = HTTP2ServerSession(settings: settings)
  }

  deinit {
    transport?.abort()
  }

  // MARK: - State

  package var isOpen: Bool { session.isOpen }
  package var isClosed: Bool { session.isEnded }
  package var streamsInFlight: Int { session.streamsInFlight }
  package var lastStreamID: HTTP2StreamID { session.lastStreamID }
  package var counters: HTTP2ServerCounters { session.counters }
  /// Bytes not written to the socket yet.
  package var queuedBytes: Int { transport?.pendingBytes ?? 0 }
  package var peerDescription: String { transport?.peerDescription ?? "" }
  /// The client's certificate, if it showed one.
  package var peerCertificate: CertificateFacts? { transport?.peerCertificate }

  /// Answers PINGs.
  package var acknowledgesPings: Bool {
    get { session.acknowledgesPings }
    set { session.acknowledgesPings = newValue }
  }

  /// Opens no flow-control window while set.
  package var withholdsWindowUpdates: Bool {
    get { session.withholdsWindowUpdates }
    set {
      session.withholdsWindowUpdates = newValue
      if let transport { session.resume(into: &transport.outbound) }
      written()
    }
  }

  // MARK: - Requests

  /// The next event; nil once everything of this turn is reported.
  package func nextEvent() -> HTTP2ServerEvent? {
    if let event = session.nextEvent() { return event }
    if let transport, session.isOpen {
      let before = transport.outbound.count
      session.resume(into: &transport.outbound)
      if transport.outbound.count != before { written() }
    }
    return nil
  }

  /// The value of a known header (its first occurrence), without a copy; empty if it is absent or the stream is gone.
  package func withHeader<Result>(
    _ name: HTTP2HeaderName, of stream: HTTP2StreamID, _ body: (Span<UInt8>) -> Result
  ) -> Result {
    session.withHeader(name, of: stream, body)
  }

  package func hasHeader(_ name: HTTP2HeaderName, of stream: HTTP2StreamID) -> Bool {
    session.hasHeader(name, of: stream)
  }

  /// Some known header occurred more than once.
  package func hasDuplicate(of stream: HTTP2StreamID) -> Bool { session.hasDuplicate(of: stream) }

  package func headerCount(of stream: HTTP2StreamID) -> Int { session.headerCount(of: stream) }

  /// A header as received, by position; duplicates are visible.
  package func withField<Result>(
    at position: Int, of stream: HTTP2StreamID, _ body: (_ name: Span<UInt8>, _ value: Span<UInt8>) -> Result
  ) -> Result {
    session.withField(at: position, of: stream, body)
  }

  /// The request's body, or the part that the settings keep.
  package func withBody<Result>(of stream: HTTP2StreamID, _ body: (Span<UInt8>) -> Result) -> Result {
    session.withBody(of: stream, body)
  }

  /// Bytes of the body that were received, kept or not.
  package func bodyCount(of stream: HTTP2StreamID) -> Int { session.bodyCount(of: stream) }

  /// Answers a request. `headers` begin with `:status`. false: the stream is gone or was answered.
  @discardableResult
  package func respond(
    _ stream: HTTP2StreamID, _ headers: borrowing HTTP2HeaderList, body: [UInt8] = [],
    options: HTTP2ResponseOptions = HTTP2ResponseOptions()
  ) -> Bool {
    guard let transport else { return false }
    let isSent = session.respond(stream, headers, body: body, options: options, into: &transport.outbound)
    written()
    return isSent
  }

  // MARK: - Faults

  /// Ends a stream with RST_STREAM, answered or not.
  package func reset(_ stream: HTTP2StreamID, _ code: HTTP2ErrorCode) {
    guard let transport else { return }
    session.reset(stream, code, into: &transport.outbound)
    written()
  }

  /// Sends GOAWAY: nothing above `lastStreamID` was processed (nil: everything received was). Open streams up to it may still be answered;
  /// then the connection ends.
  package func goAway(lastStreamID: HTTP2StreamID? = nil, code: HTTP2ErrorCode, debug: [UInt8] = []) {
    guard let transport else { return }
    session.goAway(lastStreamID: lastStreamID, code: code, debug: debug, into: &transport.outbound)
    written()
  }

  /// Allows this many streams from now on.
  package func changeMaximumStreams(_ count: Int) {
    guard let transport else { return }
    session.changeMaximumStreams(count, into: &transport.outbound)
    written()
  }

  package func ping() {
    guard let transport else { return }
    session.ping(into: &transport.outbound)
    written()
  }

  /// Sends raw bytes: frames that no session would send.
  package func sendRaw(_ bytes: Span<UInt8>) {
    guard let transport, !isTransportClosed else { return }
    transport.outbound.append(bytes)
    transport.setNeedsFlush()
  }

  /// Writes what is queued, then closes without GOAWAY.
  package func close() {
    session.end(nil)
    transport?.close()
  }

  /// Closes at once.
  package func abort() {
    session.end(.aborted)
    transport?.abort()
  }

  // MARK: - From the transport

  package func transportDidOpen(_ transport: Transport) {
    if expectsALPN, transport.negotiatedProtocol != "h2" {
      session.end(.notNegotiated(protocol: transport.negotiatedProtocol))
      transport.abort()
      return
    }
    session.open(into: &transport.outbound)
    written()
  }

  package func transportDidReceive(_ transport: Transport) {
    unsafe transport.inbound.withUnsafeBytes { unsafe session.receive($0, into: &transport.outbound) }
    transport.inbound.removeAll()
    written()
  }

  package func transportDidClose(_ transport: Transport, error: TransportError?) {
    isTransportClosed = true
    session.end(error.map { .transport($0) })
  }

  /// The session may have written: sends, and closes if the session ended.
  private func written() {
    guard let transport, !isTransportClosed else { return }
    if !transport.outbound.isEmpty { transport.setNeedsFlush() }
    if session.isEnded { transport.close() }
  }
}
