import PushCore
import PushIO
import Synchronization

/// A webhook on a thread of its own: answers each POST with the next of its texts, and keeps what came.
final class WebhookServer: Sendable {
  let port: UInt16
  private let shared: Shared
  private let thread: Mutex<LoopThread?>
  private let mailbox: Mailbox

  var url: String { "http://127.0.0.1:\(port)/hook?key=1" }
  /// Whole requests, in turn.
  var requests: [String] { shared.requests.withLock { $0 } }
  var bodies: [String] {
    requests.map { text in text.split(separator: "\r\n\r\n", maxSplits: 1).last.map(String.init) ?? "" }
  }

  /// - Parameter answers: complete answers, in order; after the last one, 204. An empty one closes the connection without an answer.
  init(_ answers: [String] = []) throws {
    let shared = Shared(answers)
    self.shared = shared
    let loop = try EventLoop()
    let connections = Connections(loop: loop, shared: shared)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: connections)
    port = listener.port
    mailbox = loop.mailbox
    let work = Work(loop: loop, connections: connections, listener: listener)
    thread = Mutex(
      LoopThread(name: "webhook") {
        while !shared.isStopped.load(ordering: .relaxed) { work.turn() }
        work.end()
      })
  }

  func stop() {
    shared.isStopped.store(true, ordering: .relaxed)
    mailbox.wake()
    thread.withLock { $0.take() }?.join()
  }

  private final class Shared: Sendable {
    let requests = Mutex<[String]>([])
    let answers: Mutex<[String]>
    let isStopped = Atomic(false)

    init(_ answers: [String]) {
      self.answers = Mutex(answers)
    }

    func answer(to request: String) -> String {
      requests.withLock { $0.append(request) }
      return answers.withLock { answers in
        answers.isEmpty ? "HTTP/1.1 204 No Content\r\n\r\n" : answers.removeFirst()
      }
    }
  }

  /// Created here and used by its own thread only.
  private final class Work: @unchecked Sendable {
    private let loop: EventLoop
    private let connections: Connections
    private let listener: Listener

    init(loop: EventLoop, connections: Connections, listener: Listener) {
      self.loop = loop
      self.connections = connections
      self.listener = listener
    }

    func turn() {
      loop.poll(maximumWaitMilliseconds: 1000)
      loop.flush()
    }

    func end() {
      listener.close()
      connections.abort()
    }
  }

  private final class Connections: ListenerDelegate, TransportDelegate {
    private let loop: EventLoop
    private let shared: Shared
    private var transports: [Transport] = []

    init(loop: EventLoop, shared: Shared) {
      self.loop = loop
      self.shared = shared
    }

    func abort() {
      for transport in transports { transport.abort() }
    }

    func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
      transports.append(Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: self))
    }

    func transportDidOpen(_ transport: Transport) {}

    func transportDidReceive(_ transport: Transport) {
      let text = transport.inbound.withBytes { String(bytes: $0) }
      let parts = text.split(separator: "\r\n\r\n", maxSplits: 1)
      guard parts.count == 2, let head = parts.first,
        let length = head.split(separator: "\r\n").first(where: { $0.hasPrefix("Content-Length: ") }),
        parts[1].utf8.count == Int(length.dropFirst(16))
      else { return }
      transport.inbound.removeAll()
      transport.outbound.append(shared.answer(to: text))
      transport.setNeedsFlush()
      transport.close()
    }

    func transportDidClose(_ transport: Transport, error: TransportError?) {
      transports.removeAll { $0 === transport }
    }
  }
}
