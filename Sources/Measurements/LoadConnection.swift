import PushCore
import PushIO

/// One kept-alive HTTP/1.1 connection of a load: a request at a time.
final class LoadConnection: TransportDelegate {
  private enum State {
    /// → idle, failed
    case connecting
    /// → waiting, failed
    case idle
    /// → idle, failed
    case waiting(LoadRequest)
    case failed(String)
  }

  /// What of an answer counts.
  private struct Answer {
    var status: Int
    var body: Range<Int>
  }

  private var state = State.connecting
  private var transport: Transport?
  /// It became idle: connected, or answered as expected.
  var becameIdle: (LoadConnection) -> Void = { _ in }
  /// When its request was due.
  var begun = Instant.distantFuture

  private static let headMaximum = 4096

  init(loop: EventLoop, port: UInt16) {
    transport = Transport.connect(
      loop: loop, to: Endpoint(host: "127.0.0.1", port: port), tls: nil, delegate: self)
  }

  var isIdle: Bool { if case .idle = state { true } else { false } }

  /// Why it ended, or got another answer than expected; nil: all is well.
  var failure: String? { if case .failed(let text) = state { text } else { nil } }

  func send(_ request: LoadRequest) {
    precondition(isIdle, "a connection has one request at a time")
    state = .waiting(request)
    transport?.outbound.append(request.bytes.span)
    transport?.setNeedsFlush()
  }

  func close() {
    transport?.delegate = nil
    transport?.abort()
    transport = nil
  }

  func transportDidOpen(_ transport: Transport) {
    state = .idle
    becameIdle(self)
  }

  func transportDidReceive(_ transport: Transport) {
    guard case .waiting(let request) = state else {
      state = .failed("bytes came that no request asked for")
      return
    }
    let wanted = request.answer
    let found = transport.inbound.withBytes { bytes -> (end: Int, isRight: Bool)? in
      guard let answer = LoadConnection.answer(in: bytes) else { return nil }
      return (
        answer.body.upperBound, answer.status == request.status && bytes.extracting(answer.body).equals(wanted)
      )
    }
    if let found, found.isRight {
      transport.inbound.consume(found.end)
      state = .idle
      becameIdle(self)
    } else if found != nil || transport.inbound.count > LoadConnection.headMaximum + wanted.utf8.count {
      state = .failed("not the answer \(request.status) that was expected: \(LoadConnection.text(transport))")
    }
  }

  func transportDidClose(_ transport: Transport, error: TransportError?) {
    if failure == nil { state = .failed(error.map { "\($0)" } ?? "the gateway closed a connection") }
  }

  /// What came, its beginning.
  private static func text(_ transport: Transport) -> String {
    transport.inbound.withBytes { bytes in text(bytes.extracting(first: 600)) }
  }

  private static func text(_ bytes: Span<UInt8>) -> String {
    String(decoding: bytes.indices.map { bytes[$0] }, as: UTF8.self)
  }

  /// nil: it did not come whole, or has no length.
  private static func answer(in bytes: Span<UInt8>) -> Answer? {
    var lineStart = 0
    var status: Int?
    var length: Int?
    for index in bytes.indices where bytes[index] == UInt8(ascii: "\n") {
      let line = bytes.extracting(lineStart..<index)
      lineStart = index + 1
      if line.count <= 1 {
        guard let status, let length, bytes.count >= lineStart + length else { return nil }
        return Answer(status: status, body: lineStart..<lineStart + length)
      } else if status == nil {
        status = text(line).split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
      } else if line[0] | 0x20 == UInt8(ascii: "c") {
        let words = text(line).lowercased().split { $0 == ":" || $0.isWhitespace }
        if words.first == "content-length", words.count == 2 { length = Int(words[1]) }
      }
    }
    return nil
  }
}
