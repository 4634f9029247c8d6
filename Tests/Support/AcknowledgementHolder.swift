/// A way to a RabbitMQ server, on a thread of its own, that passes on everything but acknowledgements. When a worker behind it ends, all that
/// it acknowledged returns to the queues, as if it had ended before its acknowledgements were on their way.
import PushIO
import Synchronization

package final class AcknowledgementHolder: Sendable {
  /// For the worker.
  package let url: String
  private let shared: Shared
  private let thread: LoopThread

  /// Deliveries that were acknowledged.
  package var heldCount: Int { shared.held.withLock { $0.count } }

  package init(port: UInt16) throws(TestFailure) {
    let shared = Shared()
    self.shared = shared
    thread = LoopThread(name: "acks") {
      guard let loop = try? EventLoop(), let connections = try? Connections(loop: loop, port: port, shared: shared)
      else { return }
      shared.port.withLock { $0 = connections.port }
      withExtendedLifetime(connections) {
        while !shared.isOver.load(ordering: .acquiring) {
          loop.poll(maximumWaitMilliseconds: 5)
          loop.flush()
        }
      }
    }
    guard let port = ChildProcess.poll(timeoutMilliseconds: 10_000, { shared.port.withLock { $0 } }) else {
      shared.isOver.store(true, ordering: .releasing)
      throw TestFailure("the way to RabbitMQ did not start")
    }
    url = "amqp://guest:guest@127.0.0.1:\(port)/"
  }

  deinit {
    shared.isOver.store(true, ordering: .releasing)
    thread.join()
  }

  private struct Delivery: Hashable {
    let connection: Int
    let channel: UInt16
    let tag: UInt64
  }

  private final class Shared: Sendable {
    let port = Mutex<UInt16?>(nil)
    let held = Mutex<Set<Delivery>>([])
    let isOver = Atomic(false)
  }

  /// One end of a connection: what it receives goes to the other end.
  private final class End: TransportDelegate {
    var transport: Transport?
    weak var other: End?
    let filter: ([UInt8]) -> [UInt8]

    init(filter: @escaping ([UInt8]) -> [UInt8]) { self.filter = filter }

    func transportDidOpen(_ transport: Transport) {}

    func transportDidReceive(_ transport: Transport) {
      let bytes = transport.inbound.withBytes { bytes in bytes.indices.map { bytes[$0] } }
      transport.inbound.consume(bytes.count)
      other?.transport?.outbound.append(filter(bytes).span)
      other?.transport?.setNeedsFlush()
    }

    func transportDidClose(_ transport: Transport, error: TransportError?) { other?.transport?.close() }
  }

  /// What a client sends, in whole frames, without its acknowledgements.
  private struct Filter {
    private var waiting: [UInt8] = []
    private var hasGreeted = false

    mutating func pass(_ bytes: [UInt8], hold: (_ channel: UInt16, _ tag: UInt64, _ isMultiple: Bool) -> Void)
      -> [UInt8]
    {
      waiting += bytes
      var passed: [UInt8] = []
      if !hasGreeted {
        guard waiting.count >= 8 else { return [] }
        hasGreeted = true
        passed = Array(waiting.prefix(8))
        waiting.removeFirst(8)
      }
      while waiting.count >= 7 {
        let count = 8 + Int(Filter.number(waiting[3..<7]))
        guard waiting.count >= count else { break }
        let frame = Array(waiting.prefix(count))
        waiting.removeFirst(count)
        if frame[0] == 1, Filter.number(frame[7..<11]) == 0x003C_0050 {
          hold(UInt16(Filter.number(frame[1..<3])), Filter.number(frame[11..<19]), frame[19] & 1 == 1)
        } else {
          passed += frame
        }
      }
      return passed
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
  }

  private final class Connections: ListenerDelegate {
    private let loop: EventLoop
    private let target: Endpoint
    private let shared: Shared
    private var listener: Listener?
    private var ends: [End] = []

    var port: UInt16 { listener?.port ?? 0 }

    init(loop: EventLoop, port: UInt16, shared: Shared) throws {
      self.loop = loop
      target = Endpoint(host: "127.0.0.1", port: port)
      self.shared = shared
      listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: self)
    }

    func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
      var filter = Filter()
      let (number, shared) = (ends.count, shared)
      let client = End { bytes in
        filter.pass(bytes) { channel, tag, isMultiple in
          shared.held.withLock { held in
            for tag in isMultiple ? 1...tag : tag...tag {
              held.insert(Delivery(connection: number, channel: channel, tag: tag))
            }
          }
        }
      }
      let server = End { $0 }
      (client.other, server.other) = (server, client)
      ends += [client, server]
      client.transport = Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: client)
      server.transport = Transport.connect(loop: loop, to: target, tls: nil, delegate: server)
    }
  }
}
