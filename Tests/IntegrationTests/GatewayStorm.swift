import Glibc
import PushIO
import Synchronization
import TestSupport

/// A client that posts one job after another on a kept connection, and notes which were answered 202.
final class GatewayStorm: Sendable {
  private struct State {
    var taken: [String] = []
    var isStopping = false
  }

  private let port: UInt16
  private let key: String
  private let name: String
  private let body: @Sendable (String) -> String
  private let state = Mutex(State())
  private let thread = Mutex<LoopThread?>(nil)

  init(_ world: GatewayWorld, number: Int) {
    port = world.port
    key = world.key
    name = "storm-\(number)"
    let template = world.job("\"id\":\"@\",")
    body = { template.replacing("@", with: $0) }
  }

  var taken: [String] { state.withLock(\.taken) }
  var takenCount: Int { state.withLock(\.taken.count) }

  func start() { thread.withLock { $0 = LoopThread(name: name) { [self] in run() } } }

  /// Returns after its last answer.
  func stop() {
    state.withLock { $0.isStopping = true }
    thread.withLock { $0.take() }?.join()
  }

  private func run() {
    var number = 0
    while !state.withLock(\.isStopping) {
      guard let socket = try? RawSocket(port: port) else {
        usleep(10_000)
        continue
      }
      while !state.withLock(\.isStopping), !socket.isAtEnd {
        number += 1
        let id = "\(name)-\(number)"
        guard post(id, on: socket) else { break }
      }
    }
  }

  /// false: the connection is of no more use.
  private func post(_ id: String, on socket: RawSocket) -> Bool {
    let body = body(id)
    socket.send(
      Array(
        """
        POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(key)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)
        """.utf8))
    var answer: [UInt8] = []
    for _ in 0..<200 where !socket.isAtEnd {
      answer += socket.receive(milliseconds: 50)
      let text = String(decoding: answer, as: UTF8.self)
      guard text.hasSuffix("}") else { continue }
      if text.hasPrefix("HTTP/1.1 202") { state.withLock { $0.taken.append(id) } }
      return true
    }
    return false
  }
}
