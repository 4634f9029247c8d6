package import Foundation
import PushCore
import PushIO

/// Asks a running worker's admin port for its status.
package struct StatusReader {
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  private static let timeoutMilliseconds: Int64 = 5_000
  private static let answerBytesMaximum = 16 << 20

  private let host: String
  private let port: UInt16

  package init(_ admin: Configuration.Admin) {
    // A worker that listens everywhere is asked here.
    host = ["0.0.0.0", "::", "*"].contains(admin.host) ? "127.0.0.1" : admin.host
    port = admin.port
  }

  /// The answer of `/status`: the value, and its bytes as they came.
  package func read() throws -> (status: WorkerStatus, json: Data) {
    let endpoint = Endpoint(host: host, port: port)
    let loop = try EventLoop()
    let exchange = Exchange(
      request: "GET /status HTTP/1.0\r\nHost: \(endpoint)\r\n\r\n", limit: Self.answerBytesMaximum)
    var options = ConnectOptions()
    options.connectTimeoutMilliseconds = Self.timeoutMilliseconds
    let transport = Transport.connect(loop: loop, to: endpoint, tls: nil, options: options, delegate: exchange)
    let end = loop.now.monotonic.adding(milliseconds: Self.timeoutMilliseconds)
    while !exchange.isOver, loop.now.monotonic < end {
      loop.poll(maximumWaitMilliseconds: 100)
      loop.flush()
    }
    withExtendedLifetime(transport) { transport.abort() }
    if let error = exchange.error, exchange.answer.isEmpty {
      throw Failure(
        description: "no worker answers at \(endpoint): \(error.text); is one running, with this admin.port?")
    }
    return try parse(exchange.answer, endpoint)
  }

  private func parse(_ answer: [UInt8], _ endpoint: Endpoint) throws -> (WorkerStatus, Data) {
    let all = Data(answer)
    guard let head = all.range(of: Data("\r\n\r\n".utf8)) else {
      throw Failure(description: "\(endpoint) did not answer /status within \(Self.timeoutMilliseconds) ms")
    }
    let body = Data(all[head.upperBound...])
    let line = String(decoding: all[..<head.lowerBound].prefix { $0 != 13 }, as: UTF8.self)
    guard line.split(separator: " ").dropFirst().first == "200",
      let status = try? WorkerStatus(json: body)
    else {
      throw Failure(description: "\(endpoint) is no worker of this version: it answered /status with \"\(line)\"")
    }
    return (status, body)
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

extension Checker.Finding {
  /// Whether the running worker answered; `error`: why not.
  package static func worker(error: String?) -> Checker.Finding {
    Checker.Finding(
      subject: "worker", isGood: error == nil, text: error ?? "answers", concernsConfiguration: false)
  }
}
