import Foundation
import PushCore
import PushIO

/// A service that is asked by HTTP/1.0, each time on a connection of its own. Blocks.
struct HTTPCall {
  enum Failure: Error {
    case unreachable(String)
    /// No whole head came within `timeoutMilliseconds`.
    case silent
    /// The first line of what came instead.
    case notHTTP(String)
  }

  static let timeoutMilliseconds: Int64 = 5_000
  private static let answerBytesMaximum = 16 << 20

  let endpoint: Endpoint
  var tls: TLSContext?

  /// - Parameter headers: `Name: value`, without an end of line.
  func ask(_ method: String, _ path: String, headers: [String] = []) throws -> (status: Int, body: Data) {
    let loop = try EventLoop()
    let lines = ["\(method) \(path) HTTP/1.0", "Host: \(endpoint)"] + headers + ["Content-Length: 0", "", ""]
    let exchange = Exchange(request: lines.joined(separator: "\r\n"), limit: Self.answerBytesMaximum)
    var options = ConnectOptions()
    options.connectTimeoutMilliseconds = Self.timeoutMilliseconds
    let transport = Transport.connect(loop: loop, to: endpoint, tls: tls, options: options, delegate: exchange)
    let end = loop.now.monotonic.adding(milliseconds: Self.timeoutMilliseconds)
    while !exchange.isOver, loop.now.monotonic < end {
      loop.poll(maximumWaitMilliseconds: 100)
      loop.flush()
    }
    withExtendedLifetime(transport) { transport.abort() }
    if let error = exchange.error, exchange.answer.isEmpty { throw Failure.unreachable(error.text) }
    return try Self.parse(exchange.answer)
  }

  private static func parse(_ answer: [UInt8]) throws(Failure) -> (Int, Data) {
    let all = Data(answer)
    guard let head = all.range(of: Data("\r\n\r\n".utf8)) else { throw .silent }
    let line = String(decoding: all[..<head.lowerBound].prefix { $0 != 13 }, as: UTF8.self)
    guard let status = line.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else { throw .notHTTP(line) }
    return (status, Data(all[head.upperBound...]))
  }

  private final class Exchange: TransportDelegate {
    private let request: String
    private let limit: Int
    private(set) var answer: [UInt8] = []
    private(set) var isOver = false
    private(set) var error: TransportError?

    init(request: String, limit: Int) {
      self.request = request
      self.limit = limit
    }

    func transportDidOpen(_ transport: Transport) {
      transport.outbound.append(request)
    }

    func transportDidReceive(_ transport: Transport) {
      let count = transport.inbound.count
      transport.inbound.withBytes { bytes in
        for index in bytes.indices where answer.count < limit { answer.append(bytes[index]) }
      }
      transport.inbound.consume(count)
    }

    func transportDidClose(_ transport: Transport, error: TransportError?) {
      isOver = true
      self.error = error
    }
  }
}
