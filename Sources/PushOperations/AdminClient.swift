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
    let authorization = token.map { ["Authorization: Bearer \($0.revealed)"] } ?? []
    do {
      return try HTTPCall(endpoint: endpoint).ask(method, path, headers: ["\(Self.commandHeader): 1"] + authorization)
    } catch HTTPCall.Failure.unreachable(let text) {
      throw Failure(
        description: "no worker answers at \(endpoint): \(text); check that one is running with this admin.port")
    } catch HTTPCall.Failure.silent {
      throw Failure(description: "\(endpoint) did not answer \(path) within \(HTTPCall.timeoutMilliseconds) ms")
    } catch HTTPCall.Failure.notHTTP(let line) {
      throw Failure(description: "\(endpoint) is not a worker: it answered \(path) with \"\(line)\"")
    }
  }
}
