import PushCore
import Testing

@testable import PushIO

struct AMQPPropertiesTests {
  /// Encodes with librabbitmq, reads with our own reader.
  private func roundTrip(_ fill: (AMQPProperties) -> Void) -> (MessageMetadata, [AMQPArgument]) {
    let properties = AMQPProperties()
    fill(properties)
    var out = ByteQueue()
    properties.appendFrame(channel: 1, bodyCount: 5, to: &out)
    var metadata = MessageMetadata()
    let headers = out.withBytes { bytes in
      let payload = bytes.extracting(AMQPFrame.headerCount..<bytes.count - 1)
      AMQPPropertiesReader.read(payload, into: &metadata)
      return AMQPPropertiesReader.headers(payload)
    }
    return (metadata, headers)
  }

  private func text(_ range: ByteRange, _ metadata: MessageMetadata) -> String {
    String(decoding: metadata.bytes[range.range], as: UTF8.self)
  }

  @Test func everyFieldComesBack() {
    let id = UUIDValue(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
    let (metadata, headers) = roundTrip { properties in
      properties.setMessageID("message".utf8.span)
      properties.setCorrelationID("correlation".utf8.span)
      properties.setTimestamp(unixMilliseconds: 1_796_000_000_123)
      properties.setType("push.outcome.v1")
      properties.addHeader("traceparent", "00-1-2-01")
      properties.addHeader("tracestate", "a=b".utf8.span)
      properties.addHeader("x-herald-attempts", 3)
      properties.addHeader("x-herald-first-seen", 1_795_999_999_999)
      properties.addHeader("x-herald-claim", 4_000_000_000)
      properties.addHeader("x-herald-ambiguous", true)
      properties.addHeader("x-herald-apns-id", id)
      properties.addHeader("x-herald-reason", literal: "because")
    }
    #expect(text(metadata.messageID, metadata) == "message")
    #expect(text(metadata.correlationID, metadata) == "correlation")
    #expect(text(metadata.traceparent, metadata) == "00-1-2-01")
    #expect(text(metadata.tracestate, metadata) == "a=b")
    #expect(metadata.enqueuedAt == 1_796_000_000_000)
    #expect(metadata.attempts == 3)
    #expect(metadata.firstSeen == 1_795_999_999_999)
    #expect(metadata.claim == 4_000_000_000)
    #expect(metadata.isAmbiguous)
    #expect(metadata.apnsID == id)
    #expect(headers.last == AMQPArgument("x-herald-reason", .text("because")))
  }

  /// What is added to a count must not overflow, wherever that is.
  @Test(arguments: [Int64.max, Int64(UInt32.max), 1_000_001, .min, -1]) func extremeCounts_areBounded(number: Int64) {
    let (metadata, _) = roundTrip { properties in
      properties.addHeader("x-herald-attempts", number)
      properties.addHeader("x-herald-deliveries", number)
      properties.addHeader("x-herald-redeliveries", number)
      properties.addHeader("x-delivery-count", number)
    }
    let bounded: UInt32 = number < 0 ? 0 : 1_000_000
    #expect(metadata.attempts == bounded && metadata.carriedDeliveries == bounded)
    #expect(metadata.redeliveries == bounded && metadata.deliveryCount == bounded)
    var delivery = DeliveryState(attempts: metadata.attempts, redeliveries: metadata.redeliveries)
    let times = JobTimes(enqueuedAt: 0, expiration: nil)
    let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 0)
    #expect(delivery.admitted(.proceed, times, policy: RetryPolicy(), dropsOverLimit: false, now: now) == .send)
    delivery.sent(now: now)
    #expect(delivery.attempts == bounded + 1)
  }

  /// A text that Herald publishes is UTF-8: one of a producer that is not is dropped, and a long text is cut between two characters.
  @Test func publishedTexts_areUTF8() {
    let wrong: [UInt8] = [0x61, 0xFF]
    let (metadata, headers) = roundTrip { properties in
      properties.addHeader("traceparent", wrong.span)
      properties.addHeader("tracestate", wrong.span)
      properties.addHeader("x-herald-detail", "a" + String(repeating: "é", count: AMQPProperties.headerTextMaximum))
      properties.setMessageID(("a" + String(repeating: "é", count: 200)).utf8.span)
    }
    #expect(metadata.traceparent.isEmpty && metadata.tracestate.isEmpty)
    let (others, _) = roundTrip { properties in
      properties.setCorrelationID(wrong.span)
      properties.setReplyTo(wrong.span)
      properties.setMessageID(wrong.span)
    }
    #expect(others.correlationID.isEmpty && others.replyTo.isEmpty && others.messageID.isEmpty)
    let (sound, _) = roundTrip { properties in
      properties.setCorrelationID("é".utf8.span)
      properties.setReplyTo("é".utf8.span)
    }
    #expect(text(sound.correlationID, sound) == "é" && text(sound.replyTo, sound) == "é")
    #expect(headers.last?.value == .text("a" + String(repeating: "é", count: AMQPProperties.headerTextMaximum / 2 - 1)))
    #expect(text(metadata.messageID, metadata) == "a" + String(repeating: "é", count: 127))
  }

  @Test func nothingStaysFromTheMessageBefore() {
    let properties = AMQPProperties()
    properties.setMessageID("first".utf8.span)
    properties.addHeader("x-herald-attempts", 3)
    properties.addHeader("x-herald-claim", 4)
    properties.reset()
    var out = ByteQueue()
    properties.appendFrame(channel: 1, bodyCount: 0, to: &out)
    var metadata = MessageMetadata()
    out.withBytes { AMQPPropertiesReader.read($0.extracting(7..<$0.count - 1), into: &metadata) }
    #expect(metadata.messageID.isEmpty)
    #expect(metadata.attempts == 0)
    #expect(metadata.claim == 0)
  }

  @Test func longTextsAreCut() {
    let long = String(repeating: "x", count: 10_000)
    let (metadata, headers) = roundTrip { properties in
      properties.setMessageID(long.utf8.span)
      properties.addHeader("x-herald-detail", long)
    }
    #expect(metadata.messageID.count == 255)
    #expect(headers == [AMQPArgument("x-herald-detail", .text(String(repeating: "x", count: 4096)))])
  }

  /// `x-delivery-count` in each numeric type.
  @Test(arguments: [
    ("b", [UInt8]([7])), ("B", [7]), ("s", [0, 7]), ("u", [0, 7]), ("I", [0, 0, 0, 7]), ("i", [0, 0, 0, 7]),
    ("l", [0, 0, 0, 0, 0, 0, 0, 7]), ("L", [0, 0, 0, 0, 0, 0, 0, 7]), ("T", [0, 0, 0, 0, 0, 0, 0, 7]),
    ("f", [0x40, 0xE0, 0, 0]), ("d", [0x40, 0x1C, 0, 0, 0, 0, 0, 0]),
  ])
  func everyNumber(kind: String, bytes: [UInt8]) {
    let table = AMQPFrames.short("x-delivery-count") + Array(kind.utf8) + bytes
    let header =
      [0, 60, 0, 0] + [UInt8](repeating: 0, count: 8) + AMQPFrames.big(UInt16(0x2000)) + AMQPFrames.long(table)
    var metadata = MessageMetadata()
    AMQPPropertiesReader.read(header.span, into: &metadata)
    #expect(metadata.deliveryCount == 7)
  }

  @Test func strangeNumbersAreKeptWithinBounds() {
    let table =
      AMQPFrames.short("x-delivery-count") + [UInt8(ascii: "l")] + AMQPFrames.big(Int64(-5))
      + AMQPFrames.short("x-herald-attempts") + [UInt8(ascii: "L")] + AMQPFrames.big(UInt64.max)
      + AMQPFrames.short("nested") + [UInt8(ascii: "F")] + AMQPFrames.long(AMQPFrames.short("x") + [UInt8(ascii: "V")])
      + AMQPFrames.short("x-herald-ambiguous") + [UInt8(ascii: "B"), 1]
    let header =
      [0, 60, 0, 0] + [UInt8](repeating: 0, count: 8) + AMQPFrames.big(UInt16(0x2040)) + AMQPFrames.long(table)
      + AMQPFrames.big(UInt64.max)
    var metadata = MessageMetadata()
    AMQPPropertiesReader.read(header.span, into: &metadata)
    #expect(metadata.deliveryCount == 0)
    #expect(metadata.attempts == Limits.headerCountMaximum)
    #expect(metadata.isAmbiguous)
    #expect(metadata.enqueuedAt == nil)
  }

  /// The deaths in their order; what is none is left out, and so is what follows an element that cannot be read.
  @Test func deathsAreRead() {
    func text(_ name: String, _ value: String) -> [UInt8] {
      AMQPFrames.short(name) + [UInt8(ascii: "S")] + AMQPFrames.long(value)
    }
    func death(_ fields: [UInt8]) -> [UInt8] { [UInt8(ascii: "F")] + AMQPFrames.long(fields) }
    func deaths(_ elements: [UInt8]) -> [AMQPDeath] {
      let table =
        text("x-first-death-reason", "expired") + AMQPFrames.short("other") + [UInt8(ascii: "A")]
        + AMQPFrames.long(death(text("reason", "no"))) + AMQPFrames.short("x-death") + [UInt8(ascii: "A")]
        + AMQPFrames.long(elements) + text("x-herald-class", "bulk")
      let header =
        [0, 60, 0, 0] + [UInt8](repeating: 0, count: 8) + AMQPFrames.big(UInt16(0x2000)) + AMQPFrames.long(table)
      #expect(AMQPPropertiesReader.headers(header.span).map(\.name) == ["x-first-death-reason", "x-herald-class"])
      return AMQPPropertiesReader.deaths(header.span)
    }
    let last = death(
      AMQPFrames.short("count") + [UInt8(ascii: "l")] + AMQPFrames.big(Int64(1)) + text("reason", "delivery_limit")
        + text("queue", "push.jobs.bulk") + text("exchange", "push.jobs") + AMQPFrames.short("routing-keys") + [
          UInt8(ascii: "A")
        ]
        + AMQPFrames.long([UInt8(ascii: "S")] + AMQPFrames.long("bulk")))
    let first = death(text("queue", "push.retry.bulk.1") + text("reason", "expired"))
    let read = [
      AMQPDeath(reason: "delivery_limit", queue: "push.jobs.bulk", exchange: "push.jobs", routingKey: "bulk"),
      AMQPDeath(reason: "expired", queue: "push.retry.bulk.1"),
    ]
    #expect(deaths(last + [UInt8(ascii: "t"), 1] + first + death([])) == read)
    #expect(deaths(last + [UInt8(ascii: "?")] + first) == [read[0]])
    #expect(deaths(last + first.dropLast()) == [read[0]])
    #expect(deaths([]).isEmpty)
  }

  @Test func publishResultsAreCounted() {
    var results = AMQPPublishResults()
    for _ in 0..<1000 { results.didPublish() }
    results.didConfirm(3, isMultiple: false)
    results.didConfirm(10, isMultiple: true)
    results.didConfirm(10, isMultiple: true)
    results.didConfirm(99_999, isMultiple: true)
    #expect(results.confirmed == 10)
    results.didRefuse(12, isMultiple: false)
    results.didConfirm(900, isMultiple: true)
    results.didReturn()
    results.didConfirm(901, isMultiple: false)
    #expect(results.refused == 1)
    #expect(results.returned == 1)
    #expect(results.confirmed == 899)
    #expect(results.unconfirmed == 99)
    results.channelLost()
    #expect(results.unconfirmed == 0)
    #expect(results.refused == 100)
  }
}
