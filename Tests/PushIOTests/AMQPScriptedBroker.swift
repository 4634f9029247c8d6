import Glibc
import PushCore
import Testing

@testable import PushIO

/// The broker's end of a socket pair, which writes the frames of a test, and a connection on the other end.
final class AMQPScriptedBroker {
  let loop: EventLoop
  let connection: AMQPConnection
  private let descriptor: Int32

  init(options: AMQPOptions = AMQPOptions()) throws {
    loop = try EventLoop()
    var ends: [Int32] = [0, 0]
    let status = unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
    #expect(status == 0)
    descriptor = ends[1]
    connection = AMQPConnection(
      loop: loop, address: try AMQPAddress("amqp://user:password@broker/"), name: "test", options: options)
    connection.adopt(fileDescriptor: ends[0])
  }

  deinit {
    close(descriptor)
  }

  func send(_ bytes: [UInt8]) {
    var offset = 0
    while offset < bytes.count {
      let rest = Array(bytes[offset...])
      let count = unsafe write(descriptor, rest, rest.count)
      guard count > 0 else { return }
      offset += count
      // The pair's buffer is small: let the other end read.
      if offset < bytes.count { loop.poll(maximumWaitMilliseconds: 0) }
    }
  }

  func hangUp() {
    _ = shutdown(descriptor, Int32(SHUT_RDWR))
  }

  /// What the connection wrote since the last call.
  func received() -> [UInt8] {
    loop.flush()
    var all: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
      guard count > 0 else { return all }
      all += buffer[..<count]
    }
  }

  /// Turns until nothing more comes, and hands each event to `each` before it takes the next.
  func turn(_ each: (AMQPEvent) -> Void = { _ in }) {
    for _ in 0..<4 {
      loop.poll(maximumWaitMilliseconds: 2)
      while let event = connection.nextEvent() { each(event) }
      loop.flush()
    }
  }

  func events() -> [AMQPEvent] {
    var events: [AMQPEvent] = []
    turn { events.append($0) }
    return events
  }

  /// The same while no delivery is wanted.
  func eventsWithoutDeliveries() -> [AMQPEvent] {
    var events: [AMQPEvent] = []
    for _ in 0..<4 {
      loop.poll(maximumWaitMilliseconds: 2)
      while let event = connection.nextEvent(takesDeliveries: false) { events.append(event) }
      loop.flush()
    }
    return events
  }

  /// Up to an open connection with channel 1 confirming and consuming.
  func open() {
    send(AMQPFrames.handshake)
    turn { event in
      guard event == .opened else { return }
      connection.request(.openChannel, channel: 1)
      connection.request(.selectConfirms, channel: 1)
    }
    send(AMQPFrames.channelOpenOK + AMQPFrames.confirmSelectOK)
    turn()
    #expect(connection.isOpen(channel: 1))
  }
}

/// A broker's frames, byte by byte.
enum AMQPFrames {
  static func frame(_ kind: UInt8, _ channel: UInt16, _ payload: [UInt8]) -> [UInt8] {
    [kind] + big(channel) + big(UInt32(payload.count)) + payload + [0xCE]
  }

  static func method(_ id: UInt32, _ arguments: [UInt8] = [], channel: UInt16 = 1) -> [UInt8] {
    frame(1, channel, big(id) + arguments)
  }

  static func big<Value: FixedWidthInteger>(_ value: Value) -> [UInt8] {
    stride(from: Value.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> Value($0)) }
  }

  static func short(_ text: String) -> [UInt8] { [UInt8(text.utf8.count)] + Array(text.utf8) }
  static func long(_ bytes: [UInt8]) -> [UInt8] { big(UInt32(bytes.count)) + bytes }
  static func long(_ text: String) -> [UInt8] { long(Array(text.utf8)) }

  static let start = method(
    0x000A_000A,
    [0, 9]
      + long(
        short("product") + [UInt8(ascii: "S")] + long("RabbitMQ") + short("version") + [UInt8(ascii: "S")]
          + long("3.10.8") + short("capabilities") + [UInt8(ascii: "F")]
          + long(short("basic.nack") + [UInt8(ascii: "t"), 1])) + long("PLAIN AMQPLAIN") + long("en_US"), channel: 0)
  static let tune = method(0x000A_001E, big(UInt16(2047)) + big(UInt32(131_072)) + big(UInt16(60)), channel: 0)
  static let openOK = method(0x000A_0029, [0], channel: 0)
  static let handshake = start + tune + openOK
  static let channelOpenOK = method(0x0014_000B, [0, 0, 0, 0])
  static let confirmSelectOK = method(0x0055_000B)

  static func deliver(_ tag: UInt64, channel: UInt16 = 1, isRedelivered: Bool = false) -> [UInt8] {
    method(
      0x003C_003C,
      short("consumer") + big(tag) + [isRedelivered ? 1 : 0] + short("push.jobs") + short("bulk"), channel: channel)
  }

  static func header(size: Int, flags: UInt16 = 0, properties: [UInt8] = [], channel: UInt16 = 1) -> [UInt8] {
    frame(2, channel, big(UInt16(60)) + big(UInt16(0)) + big(UInt64(size)) + big(flags) + properties)
  }

  static func body(_ bytes: [UInt8], channel: UInt16 = 1) -> [UInt8] { frame(3, channel, bytes) }

  static func ack(_ sequence: UInt64, isMultiple: Bool = false) -> [UInt8] {
    method(0x003C_0050, big(sequence) + [isMultiple ? 1 : 0])
  }

  static let heartbeat = frame(8, 0, [])
}
