import PushCore
import Testing

@testable import PushIO

/// Broker sessions, mutated from a seed: the connection always ends in order or goes on.
struct AMQPFuzzTests {
  private func session() -> [UInt8] {
    let headers =
      AMQPFrames.short("x-delivery-count") + [UInt8(ascii: "l")] + AMQPFrames.big(UInt64(1))
      + AMQPFrames.short("traceparent") + [UInt8(ascii: "S")] + AMQPFrames.long("00-1-2-01")
      + AMQPFrames.short("x-death") + [UInt8(ascii: "A")]
      + AMQPFrames.long(
        [UInt8(ascii: "F")] + AMQPFrames.long(AMQPFrames.short("count") + [UInt8(ascii: "I"), 0, 0, 0, 1]))
    let properties =
      AMQPFrames.long(headers) + [2] + AMQPFrames.short("message-id") + AMQPFrames.big(UInt64(1_796_000_000))
    var bytes = AMQPFrames.handshake + AMQPFrames.channelOpenOK + AMQPFrames.confirmSelectOK
    bytes += AMQPFrames.method(0x003C_0015, AMQPFrames.short("consumer"))
    for tag in 1...4 {
      bytes += AMQPFrames.deliver(UInt64(tag))
      bytes += AMQPFrames.header(size: 20, flags: 0x30C0, properties: properties)
      bytes += AMQPFrames.body([UInt8](repeating: UInt8(tag), count: 12))
      bytes += AMQPFrames.body([UInt8](repeating: UInt8(tag), count: 8))
      bytes += AMQPFrames.ack(UInt64(tag), isMultiple: tag == 4)
    }
    bytes += AMQPFrames.deliver(5) + AMQPFrames.header(size: 3) + AMQPFrames.body([1, 2, 3])
    bytes += AMQPFrames.method(
      0x003C_0032,
      AMQPFrames.big(UInt16(312)) + AMQPFrames.short("NO_ROUTE") + AMQPFrames.short("e") + AMQPFrames.short("k"))
    bytes += AMQPFrames.header(size: 0)
    bytes += AMQPFrames.method(0x000A_003C, AMQPFrames.short("low on memory"), channel: 0)
    bytes += AMQPFrames.method(0x003C_001E, AMQPFrames.short("consumer") + [1])
    bytes += AMQPFrames.method(
      0x0014_0028, AMQPFrames.big(UInt16(406)) + AMQPFrames.short("PRECONDITION_FAILED") + [0, 0, 0, 0])
    return bytes
  }

  /// Feeds the bytes and reads every event. Returns the number of reported messages.
  private func run(_ bytes: [UInt8]) throws -> Int {
    let broker = try AMQPScriptedBroker()
    var messages = 0
    var body: [UInt8] = []
    var metadata = MessageMetadata()
    let exchange = AMQPExchange("e", isMandatory: true)
    broker.send(bytes)
    broker.turn { event in
      switch event {
      case .opened:
        broker.connection.request(.openChannel, channel: 1)
        broker.connection.request(.selectConfirms, channel: 1)
        broker.connection.request(.consume(queue: "q", consumerTag: "consumer", arguments: []), channel: 1)
      case .completed:
        if broker.connection.isOpen(channel: 1) {
          for _ in 0..<4 {
            broker.connection.publish(
              to: exchange, channel: 1, routingKey: Span(), properties: AMQPProperties(), body: Span())
          }
        }
      case .delivery, .returned:
        broker.connection.copyBody(into: &body)
        broker.connection.copyMetadata(into: &metadata)
        _ = broker.connection.headers()
        messages += 1
      case .confirmed, .refused, .cancelled, .channelClosed, .blocked, .unblocked, .closed:
        break
      }
    }
    return messages
  }

  @Test func theSessionItselfIsUnderstood() throws {
    #expect(try run(session()) == 6)
  }

  @Test(arguments: 0..<8)
  func mutatedSessions(seed: Int) throws {
    let original = session()
    var random = SeededRandom(seed: UInt64(seed))
    for _ in 0..<60 {
      var bytes = original
      for _ in 0...Int.random(in: 0..<6, using: &random) {
        let position = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<5, using: &random) {
        case 0: bytes[position] = UInt8.random(in: 0 ... .max, using: &random)
        case 1: bytes[position] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 2: bytes.remove(at: position)
        case 3: bytes.insert([0, 1, 0x7F, 0x80, 0xCE, 0xFF].randomElement(using: &random)!, at: position)
        default: bytes.removeSubrange(position..<min(bytes.count, position + 9))
        }
        if bytes.count < 8 { break }
      }
      #expect(try run(bytes) <= 6)
    }
  }

  /// Properties and tables of random bytes: read as far as they are valid.
  @Test func randomProperties() {
    var random = SeededRandom(seed: 99)
    var metadata = MessageMetadata()
    for _ in 0..<20_000 {
      let count = Int.random(in: 0..<80, using: &random)
      var bytes = (0..<count).map { _ in UInt8.random(in: 0 ... .max, using: &random) }
      if count > 14, Bool.random(using: &random) {
        // Aims at the table: only headers are announced, with a valid length.
        bytes[12] = 0x20
        bytes[13] = 0
        for index in 14..<min(17, count) { bytes[index] = 0 }
      }
      metadata.reset()
      AMQPPropertiesReader.read(bytes.span, into: &metadata)
      _ = AMQPPropertiesReader.headers(bytes.span)
      _ = AMQPTableReader.isShallow(bytes.span, at: 0, depthMaximum: 4)
      #expect(metadata.bytes.count <= 3 * count)
    }
  }
}
