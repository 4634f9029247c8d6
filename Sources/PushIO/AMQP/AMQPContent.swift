import PushCore

/// Where the last message is: in the received bytes, or collected in a channel's buffers.
enum AMQPContentPlace {
  case none
  /// Offsets into `Transport.inbound`; the next event consumes `consumed` bytes of it.
  case inPlace(header: Range<Int>, body: Range<Int>, consumed: Int)
  case collected(channel: Int)
}

/// A message that was received in pieces: buffers that are reused for the next one.
struct AMQPCollectedContent {
  /// The payload of the content header frame.
  var header: [UInt8] = []
  var body: [UInt8] = []
  /// A larger buffer is freed after it was read.
  private static let retainedCapacity = 1 << 20

  mutating func begin() {
    header.removeAll(keepingCapacity: true)
    body.removeAll(keepingCapacity: true)
  }

  mutating func shrink() {
    if body.capacity > AMQPCollectedContent.retainedCapacity { body = [] }
  }
}
