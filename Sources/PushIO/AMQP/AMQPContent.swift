import PushCore

/// Where the last message lies: in the received bytes as they came, or collected in a channel's buffers.
enum AMQPContentPlace {
  case none
  /// Offsets into `Transport.inbound`; `consumed` bytes of it are given back at the next event.
  case inPlace(header: Range<Int>, body: Range<Int>, consumed: Int)
  case collected(channel: Int)
}

/// A message that did not come in one piece: buffers that are used again for the next.
struct AMQPCollectedContent {
  /// The payload of the content header frame.
  var header: [UInt8] = []
  var body: [UInt8] = []
  /// A buffer that grew beyond this is given back once it was read.
  private static let retainedCapacity = 1 << 20

  mutating func begin() {
    header.removeAll(keepingCapacity: true)
    body.removeAll(keepingCapacity: true)
  }

  mutating func shrink() {
    if body.capacity > AMQPCollectedContent.retainedCapacity { body = [] }
  }
}
