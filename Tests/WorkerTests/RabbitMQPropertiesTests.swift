import PushCore
import Testing

@testable import PushIO
@testable import PushLane

/// The headers of what a lane publishes.
@Suite struct RabbitMQPropertiesTests {
  /// A message may come with every header of Herald's, each as long as it may be. Its copies keep what they have, and more is added.
  @Test func aCopyHasRoomForEveryHeader() throws {
    var metadata = MessageMetadata()
    func text(_ count: Int) -> ByteRange {
      let start = metadata.bytes.count
      metadata.bytes += [UInt8](repeating: UInt8(ascii: "a"), count: count)
      return ByteRange(start: start, count: count)
    }
    (metadata.messageID, metadata.correlationID, metadata.replyTo) = (text(255), text(255), text(255))
    (metadata.traceparent, metadata.tracestate, metadata.routingKey) = (text(4096), text(4096), text(4096))
    (metadata.timestamp, metadata.order, metadata.firstSeen, metadata.pausedAt) = (1, 1, 1, 1)
    (metadata.attempts, metadata.claim, metadata.carriedDeliveries, metadata.redeliveries, metadata.startWaits) =
      (1, 1, 1, 1, 1)
    (metadata.isAmbiguous, metadata.isReplay, metadata.isReturning) = (true, true, true)
    (metadata.apnsID, metadata.undelivered) = (UUIDValue(high: 1, low: 2), .unroutable)
    let cursor = ExpansionCursor(step: 1, ordinal: 1, pages: 1, devices: 1)
    let described = RabbitMQPublishProperties()
    let state = RetryState(
      attempts: 1, firstSeen: 1, claim: 1, redeliveries: 1, isAmbiguous: true, apnsID: metadata.apnsID,
      reason: .other(String(repeating: "a", count: 64)))
    let kinds: [(String, () -> Void)] = [
      ("retry", { described.describeRetry(state, metadata) }),
      ("isolated", { described.describeIsolated(.bulk, firstSeen: 1, metadata) }),
      (
        "expansion",
        { described.describeExpansion(.bulk, firstSeen: 1, cursor: cursor, deliveries: 1, isReturning: true, metadata) }
      ),
      ("page", { described.describePage([1], isRepeated: true, order: 1, unixMilliseconds: 1, metadata) }),
      ("dead", { described.describeDeadLetter(.bulk, "invalid", "why", UUIDValue(high: 1, low: 2), metadata) }),
      (
        "returned",
        {
          described.describeReturned(
            .bulk, deliveries: 1, cursor: cursor.text, .unroutable, routingKey: String(repeating: "a", count: 4096),
            metadata)
        }
      ),
    ]
    for (name, describe) in kinds {
      describe()
      described.delay(seconds: 1)
      // What each publish adds to them.
      RabbitMQPublishNumber.add(1, to: described.properties)
      var frame = ByteQueue()
      described.properties.appendFrame(channel: 1, bodyCount: 1, to: &frame)
      var read = MessageMetadata()
      frame.withBytes { AMQPPropertiesReader.read($0.extracting(7..<$0.count - 1), into: &read) }
      #expect(read.traceparent.count == 4096 && read.tracestate.count == 4096, "\(name)")
    }
  }
}
