package import Foundation
import PushCore
import PushIO
package import PushSettings
package import PushWorker

/// Calls a running worker's admin port, for its status or for a change.
package struct AdminClient {
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  /// A header of `POST` requests, which no web page sets by itself.
  package static let commandHeader = "x-herald-command"

  private static let timeoutMilliseconds: Int64 = 5_000
  private static let answerBytesMaximum = 16 << 20

  private let host: String
  private let port: UInt16
  private let tokenFile: String?

  package init(_ admin: Configuration.Admin) {
    // A worker that listens on all addresses is reached at this one.
    host = ["0.0.0.0", "::", "*"].contains(admin.host) ? "127.0.0.1" : admin.host
    port = admin.port
    tokenFile = admin.tokenFile
  }

  /// The answer of `/status`: the value, and its bytes.
  package func status() throws -> (status: WorkerStatus, json: Data) {
    let answer = try ask("GET", "/status")
    guard answer.status == 200, let status = try? WorkerStatus(json: answer.body) else {
      throw Failure(
        description: "\(endpoint) is not a worker of this version: it answered /status with \(answer.status)")
    }
    return (status, answer.body)
  }

  /// Makes the worker end the connections of a credential, and of all with the same key, and not use them until their key changes. Returns
  /// what it says of each.
  package func revoke(credential name: String) throws -> String { try change(name, "revoke") }

  /// Makes the worker use a revoked credential again. Returns what it says.
  package func unrevoke(credential name: String) throws -> String { try change(name, "unrevoke") }

  /// Ends pauses in all lanes of the worker: of a credential, nil: of all; of a topic, nil: all. Returns their number.
  package func liftPauses(credential: String?, topic: String?) throws -> Int {
    var query: [String] = []
    if let credential { query.append("credential=\(try checked(credential, "a credential's name"))") }
    if let topic { query.append("topic=\(try checked(topic, "a topic"))") }
    let token = try tokenFile.map { try AdminToken(file: $0) }
    let answer = try ask("POST", "/pauses/lift?\(query.joined(separator: "&"))", token: token)
    let text = String(decoding: answer.body, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    guard answer.status == 200, let count = Int(text) else {
      throw Failure(description: "\(endpoint) lifted no pause: \(text) (\(answer.status))")
    }
    return count
  }

  private func checked(_ name: String, _ what: String) throws -> String {
    guard !name.isEmpty, name.utf8.allSatisfy(Self.isNameByte) else {
      throw Failure(description: "\"\(name)\" is not \(what)")
    }
    return name
  }

  private func change(_ name: String, _ action: String) throws -> String {
    _ = try checked(name, "a credential's name")
    let token = try tokenFile.map { try AdminToken(file: $0) }
    let answer = try ask("POST", "/credentials/\(name)/\(action)", token: token)
    let text = String(decoding: answer.body, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    guard answer.status == 200 else {
      throw Failure(description: "\(endpoint) did not \(action) \(name): \(text) (\(answer.status))")
    }
    return text
  }

  /// The bytes that the configuration allows in a name.
  private static func isNameByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"),
      UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  private var endpoint: Endpoint { Endpoint(host: host, port: port) }

  private func ask(
    _ method: String, _ path: String, token: AdminToken? = nil
  ) throws -> (status: Int, body: Data) {
    let loop = try EventLoop()
    let authorization = token.map { "Authorization: Bearer \($0.revealed)\r\n" } ?? ""
    let exchange = Exchange(
      request:
        "\(method) \(path) HTTP/1.0\r\nHost: \(endpoint)\r\n\(Self.commandHeader): 1\r\n\(authorization)Content-Length: 0\r\n\r\n",
      limit: Self.answerBytesMaximum)
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
        description: "no worker answers at \(endpoint): \(error.text); check that one is running with this admin.port")
    }
    return try parse(exchange.answer, path)
  }

  private func parse(_ answer: [UInt8], _ path: String) throws -> (Int, Data) {
    let all = Data(answer)
    guard let head = all.range(of: Data("\r\n\r\n".utf8)) else {
      throw Failure(description: "\(endpoint) did not answer \(path) within \(Self.timeoutMilliseconds) ms")
    }
    let line = String(decoding: all[..<head.lowerBound].prefix { $0 != 13 }, as: UTF8.self)
    guard let status = line.split(separator: " ").dropFirst().first.flatMap({ Int($0) }) else {
      throw Failure(description: "\(endpoint) is not a worker: it answered \(path) with \"\(line)\"")
    }
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
