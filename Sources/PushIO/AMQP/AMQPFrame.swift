/// One frame's position in the received bytes: kind, channel, payload. Source: AMQP 0-9-1, 4.2.3.
struct AMQPFrame: Equatable {
  enum Kind: UInt8 {
    case method = 1
    case header = 2
    case body = 3
    case heartbeat = 8
  }

  var kind: Kind
  var channel: UInt16
  /// Length of the payload; it starts `headerCount` bytes after the frame's start.
  var payloadCount: Int

  static let headerCount = 7
  static let endMark: UInt8 = 0xCE
  /// Header and end mark.
  static let overhead = 8

  var totalCount: Int { payloadCount + AMQPFrame.overhead }

  /// The frame that starts at `offset`; nil if it is not complete yet.
  ///
  /// `frameMax`: the agreed maximum, overhead included.
  @inline(__always)
  static func read(_ bytes: Span<UInt8>, at offset: Int, frameMax: Int) throws(AMQPError) -> AMQPFrame? {
    guard bytes.count - offset >= headerCount else {
      // "AMQP" starts a peer's own protocol header: it refuses our version.
      if bytes.count > offset, bytes[offset] == UInt8(ascii: "A") { throw .notAMQP }
      return nil
    }
    guard let kind = Kind(rawValue: bytes[offset]) else {
      if bytes[offset] == UInt8(ascii: "A") { throw .notAMQP }
      throw .unknownFrameKind(bytes[offset])
    }
    let channel = UInt16(bytes[offset + 1]) << 8 | UInt16(bytes[offset + 2])
    let payloadCount =
      Int(bytes[offset + 3]) << 24 | Int(bytes[offset + 4]) << 16 | Int(bytes[offset + 5]) << 8
      | Int(bytes[offset + 6])
    guard payloadCount + overhead <= frameMax else {
      throw .frameTooLarge(bytes: payloadCount + overhead, maximum: frameMax)
    }
    guard bytes.count - offset >= payloadCount + overhead else { return nil }
    guard bytes[offset + headerCount + payloadCount] == endMark else { throw .badFrameEnd }
    return AMQPFrame(kind: kind, channel: channel, payloadCount: payloadCount)
  }
}
