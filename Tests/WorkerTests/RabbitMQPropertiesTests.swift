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
    (metadata.isAmbiguous, metadata.isReplay, metadata.isReturning, metadata.isSeenLate) = (true, true, true, true)
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
  /// The copy's first receipt is that of a later delivery: what the earlier ones left may have ended before. So it may with what RabbitMQ
  /// gave up, of which nobody knows how often it was delivered.
  @Test(arguments: [nil, 1_799_999_900] as [Int64?])
  func whatWasDeliveredBefore_mayHaveEndedBeforeItsCopy(timestamp: Int64?) throws {
    let earliest = (timestamp ?? 0) * 1_000
    let described = RabbitMQPublishProperties()
    func copy(_ describe: () -> Void) -> MessageMetadata {
      describe()
      var frame = ByteQueue()
      described.properties.appendFrame(channel: 1, bodyCount: 1, to: &frame)
      var read = MessageMetadata()
      frame.withBytes { AMQPPropertiesReader.read($0.extracting(7..<$0.count - 1), into: &read) }
      return read
    }
    let bench = LaneBench()
    let world = bench.world
    world.targetCount = 2
    bench.consume(0..<1) { ($0.timestamp, $0.deliveryCount) = (timestamp, 1) }
    bench.turn()
    var retry = try #require(world.retries.last)
    var waited = copy { described.describeRetry(retry, world.replaced[0]) }
    world.deliver(0) { $0 = waited }
    bench.turn(60)
    #expect(world.arrivals.map(\.publishedAt) == [earliest, earliest] && world.arrivals.allSatisfy(\.isReturning))
    // Also if that copy is lost in its turn.
    waited.deliveryCount = 1
    bench.consume(0..<1) { $0 = waited }
    bench.turn()
    retry = try #require(world.retries.dropFirst().last)
    waited = copy { described.describeRetry(retry, world.replaced[1]) }
    world.deliver(0) { $0 = waited }
    bench.turn(60)
    #expect(world.arrivals.suffix(2).map(\.publishedAt) == [earliest, earliest])
    world.deliver(1) { ($0.timestamp, $0.deliveryCount) = (timestamp, 3) }
    bench.turn()
    try #require(world.isolatedCount == 1)
    let isolated = copy { described.describeIsolated(.bulk, firstSeen: world.milliseconds, world.replaced[2]) }
    world.targetCount = 1
    world.deliver(1, isIsolated: true) { $0 = isolated }
    bench.turn(60)
    #expect(world.arrivals.count == 5 && world.arrivals.last?.publishedAt == earliest)
    var given = MessageMetadata()
    given.timestamp = timestamp
    let returned = copy {
      described.describeReturned(.bulk, deliveries: 0, cursor: nil, .expired, routingKey: "", given)
    }
    world.deliver(2) { $0 = returned }
    bench.turn()
    let last = try #require(world.arrivals.last)
    #expect(world.arrivals.count == 6 && last.publishedAt == earliest && last.isRedelivered)
    // What is delivered for the first time has not ended before.
    world.admission = .limited(retryAfterMilliseconds: 1_000)
    let received = world.milliseconds
    world.deliver(3) { $0.timestamp = timestamp }
    bench.turn()
    #expect(world.arrivals.last?.isRedelivered == false)
    retry = try #require(world.retries.dropFirst(2).last)
    let delayed = copy { described.describeRetry(retry, world.replaced[3]) }
    world.deliver(3) { $0 = delayed }
    bench.turn()
    #expect(world.arrivals.last.map { $0.publishedAt > received } == true)
  }
}
