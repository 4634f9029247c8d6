import Glibc
import PushCore

@testable import PushIO

/// Everything that a broker may send on a connection, from the start: frames, methods, contents, in any order.
final class AMQPSubject: FuzzSubject {
  private let loop: EventLoop
  private let address: AMQPAddress
  private let exchange = AMQPExchange("e", isMandatory: true)
  private var body: [UInt8] = []
  private var metadata = MessageMetadata()

  init() throws(FuzzFinding) {
    do {
      loop = try EventLoop()
      address = try AMQPAddress("amqp://user:password@broker/")
    } catch {
      throw FuzzFinding("\(error)")
    }
  }

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    var ends: [Int32] = [0, 0]
    guard unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else {
      throw FuzzFinding("no socket pair (errno \(errno)): descriptors are lost")
    }
    defer { close(ends[1]) }
    let connection = AMQPConnection(loop: loop, address: address, name: "fuzz")
    connection.adopt(fileDescriptor: ends[0])
    let written = unsafe write(ends[1], bytes, bytes.count)
    guard written == bytes.count else { throw FuzzFinding("an input of \(bytes.count) bytes is too long") }
    _ = shutdown(ends[1], Int32(SHUT_WR))
    var events = 0
    for _ in 0..<64 where !connection.isClosed {
      loop.poll(maximumWaitMilliseconds: 0)
      while let event = connection.nextEvent() {
        events += 1
        try holds(events <= bytes.count + 8, "no more events than bytes")
        answer(event, connection)
      }
      loop.flush()
    }
    try holds(connection.isClosed, "the end of the stream is reported")
    try holds(loop.scheduledCount <= 8, "a connection that ended leaves no timers")
    try holds(body.capacity <= 1 << 20 && metadata.bytes.capacity <= 1 << 20, "buffers stay bounded")
  }

  private func answer(_ event: AMQPEvent, _ connection: AMQPConnection) {
    switch event {
    case .opened:
      connection.request(.openChannel, channel: 1)
      connection.request(.selectConfirms, channel: 1)
      connection.request(.consume(queue: "q", consumerTag: "consumer", arguments: []), channel: 1)
    case .completed:
      guard connection.isOpen(channel: 1) else { return }
      for _ in 0..<4 {
        connection.publish(to: exchange, channel: 1, routingKey: Span(), properties: AMQPProperties(), body: Span())
      }
    case .delivery, .returned:
      connection.copyBody(into: &body)
      connection.copyMetadata(into: &metadata)
      _ = connection.headers()
    case .confirmed, .refused, .cancelled, .channelClosed, .blocked, .unblocked, .closed:
      break
    }
  }
}
