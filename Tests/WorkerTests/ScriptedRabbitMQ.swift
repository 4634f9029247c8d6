import PushIO

/// A RabbitMQ that a test controls, on the test's own loop: it answers every request as a broker does, and confirms and
/// returns nothing by itself.
final class ScriptedRabbitMQ: ListenerDelegate {
  /// A published message. A broker returns the same bytes.
  struct Publish {
    fileprivate let session: Session
    let channel: UInt16
    let exchange: String
    let routingKey: String
    let isMandatory: Bool
    /// The payload of its content header.
    fileprivate(set) var header: [UInt8] = []
    fileprivate(set) var body: [UInt8] = []
  }

  /// One connection of a client.
  fileprivate final class Session: TransportDelegate {
    unowned let broker: ScriptedRabbitMQ
    var transport: Transport?
    private var hasGreeted = false

    init(_ broker: ScriptedRabbitMQ) {
      self.broker = broker
    }

    func transportDidOpen(_ transport: Transport) {}
    func transportDidClose(_ transport: Transport, error: TransportError?) {}

    func transportDidReceive(_ transport: Transport) {
      var bytes = transport.inbound.withBytes { bytes in bytes.indices.map { bytes[$0] } }
      let count = bytes.count
      if !hasGreeted {
        guard bytes.count >= 8 else { return }
        hasGreeted = true
        bytes.removeFirst(8)
        method(0x000A_000A, [0, 9] + long([]) + long(Array("PLAIN".utf8)) + long(Array("en_US".utf8)), channel: 0)
      }
      var offset = 0
      while offset + 7 <= bytes.count {
        let size = Int(number(bytes, offset + 3, 4))
        guard offset + 8 + size <= bytes.count else { break }
        broker.frame(
          bytes[offset], UInt16(number(bytes, offset + 1, 2)), Array(bytes[offset + 7..<offset + 7 + size]), self)
        offset += 8 + size
      }
      transport.inbound.consume(count - (bytes.count - offset))
    }

    func frame(_ kind: UInt8, _ channel: UInt16, _ payload: [UInt8]) {
      let bytes = [kind] + big(channel) + big(UInt32(payload.count)) + payload + [0xCE]
      transport?.outbound.append(bytes.span)
      transport?.setNeedsFlush()
    }

    func method(_ id: UInt32, _ arguments: [UInt8] = [], channel: UInt16) {
      frame(1, channel, big(id) + arguments)
    }
  }

  private let loop: EventLoop
  private var listener: Listener?
  private var sessions: [Session] = []
  private var received: [Publish] = []
  /// Without probes for alarms.
  var publishes: [Publish] { received.filter { $0.routingKey != AMQPAlarmProbe.routingKey } }
  /// false: it opens connections and answers nothing on their channels.
  var answersOnChannels = true

  var connectionCount: Int { sessions.count }

  init(loop: EventLoop) throws {
    self.loop = loop
    listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: self)
  }

  var address: AMQPAddress {
    get throws { try AMQPAddress("amqp://guest:guest@127.0.0.1:\(listener?.port ?? 0)/") }
  }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    let session = Session(self)
    sessions.append(session)
    session.transport = Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: nil, delegate: session)
  }

  // MARK: - What a test plays

  /// Confirms the publish with this number on its channel, or all up to it.
  func confirm(_ publish: Publish, number: UInt64, isMultiple: Bool = false) {
    publish.session.method(0x003C_0050, big(number) + [isMultiple ? 1 : 0], channel: publish.channel)
  }

  /// Stops the channel of this publish, or lets it go on.
  func flow(_ publish: Publish, isActive: Bool) {
    publish.session.method(0x0014_0014, [isActive ? 1 : 0], channel: publish.channel)
  }

  /// Returns a message as unroutable.
  func giveBack(_ publish: Publish) {
    publish.session.method(
      0x003C_0032, big(UInt16(312)) + short("NO_ROUTE") + short(publish.exchange) + short(publish.routingKey),
      channel: publish.channel)
    publish.session.frame(2, publish.channel, publish.header)
    if !publish.body.isEmpty { publish.session.frame(3, publish.channel, publish.body) }
  }

  // MARK: - What clients say

  private func frame(_ kind: UInt8, _ channel: UInt16, _ payload: [UInt8], _ session: Session) {
    switch kind {
    case 1: method(UInt32(number(payload, 0, 4)), channel, Array(payload[4...]), session)
    case 2: received[received.count - 1].header = payload
    case 3: received[received.count - 1].body += payload
    default: break
    }
  }

  private func method(_ id: UInt32, _ channel: UInt16, _ arguments: [UInt8], _ session: Session) {
    if channel > 0, !answersOnChannels { return }
    switch id {
    case 0x000A_000B:
      session.method(0x000A_001E, big(UInt16(2047)) + big(UInt32(131_072)) + big(UInt16(0)), channel: 0)
    case 0x000A_0028: session.method(0x000A_0029, [0], channel: 0)
    case 0x000A_0032: session.method(0x000A_0033, channel: 0)
    case 0x0014_000A: session.method(0x0014_000B, [0, 0, 0, 0], channel: channel)
    case 0x0014_0028: session.method(0x0014_0029, channel: channel)
    case 0x0032_000A:
      session.method(0x0032_000B, text(arguments, 2).bytes + [0, 0, 0, 0, 0, 0, 0, 0], channel: channel)
    case 0x003C_0014:
      let queue = text(arguments, 2)
      session.method(0x003C_0015, text(arguments, queue.end).bytes, channel: channel)
    case 0x0028_000A, 0x0032_0014, 0x0032_0032, 0x003C_000A, 0x0055_000A:
      // exchange.declare, queue.bind, queue.unbind, basic.qos, confirm.select: the answer carries nothing.
      session.method(id + 1, channel: channel)
    case 0x003C_0028:
      let exchange = text(arguments, 2)
      let key = text(arguments, exchange.end)
      received.append(
        Publish(
          session: session, channel: channel, exchange: exchange.text, routingKey: key.text,
          isMandatory: arguments[key.end] & 1 != 0))
    default: break
    }
  }
}

private func big<Value: FixedWidthInteger>(_ value: Value) -> [UInt8] {
  stride(from: Value.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> Value($0)) }
}

private func number(_ bytes: [UInt8], _ offset: Int, _ count: Int) -> UInt64 {
  bytes[offset..<offset + count].reduce(0) { $0 << 8 | UInt64($1) }
}

private func short(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }

private func long(_ bytes: [UInt8]) -> [UInt8] { big(UInt32(bytes.count)) + bytes }

/// A short text: its bytes with their length, and where the next field starts.
private func text(_ bytes: [UInt8], _ offset: Int) -> (text: String, bytes: [UInt8], end: Int) {
  let end = offset + 1 + Int(bytes[offset])
  return (String(decoding: bytes[(offset + 1)..<end], as: UTF8.self), Array(bytes[offset..<end]), end)
}
