import PushCore

/// Reads a message's properties (a content header's payload after the body size) into `MessageMetadata`.
///
/// Unreadable properties are skipped: the message's body decides what becomes of it.
enum AMQPPropertiesReader {
  /// Offset of the property flags in a content header: class, weight, body size.
  static let flagsOffset = 12
  /// A longer `tracestate` is dropped, as the W3C recommendation allows.
  static let headerTextMaximum = 4096

  /// `header`: the whole payload of a content header frame.
  static func read(_ header: Span<UInt8>, into metadata: inout MessageMetadata) {
    var position = Position(header)
    while let property = position.next(header) {
      switch property {
      case .headers(var table):
        while let field = table.next(header) { readHeader(field.name, field.value, header, into: &metadata) }
      case .correlationID(let range):
        metadata.correlationID = copyText(range, header, into: &metadata)
      case .replyTo(let range):
        metadata.replyTo = copyText(range, header, into: &metadata)
      case .messageID(let range):
        // Any bytes tell two messages apart; whoever makes text of them checks them.
        metadata.messageID = copy(range, header, into: &metadata)
      case .timestamp(let seconds):
        // Times far beyond any calendar count as none.
        if seconds < 1 << 40 {
          metadata.timestamp = Int64(seconds)
          metadata.enqueuedAt = Int64(seconds) * 1000
        }
      case .other:
        break
      }
    }
  }

  /// The headers with text, numbers and flags.
  static func headers(_ header: Span<UInt8>) -> [AMQPArgument] {
    var result: [AMQPArgument] = []
    var position = Position(header)
    while let property = position.next(header) {
      guard case .headers(var table) = property else { continue }
      while let field = table.next(header) {
        let name = text(field.name, header)
        switch field.value {
        case .number(let number): result.append(AMQPArgument(name, .number(number)))
        case .flag(let flag): result.append(AMQPArgument(name, .flag(flag)))
        case .bytes(let range): result.append(AMQPArgument(name, .text(text(range, header))))
        case .list, .other: break
        }
      }
    }
    return result
  }

  /// What the broker tells in `x-death`, the latest first.
  static func deaths(_ header: Span<UInt8>) -> [AMQPDeath] {
    var deaths: [AMQPDeath] = []
    var position = Position(header)
    while let property = position.next(header) {
      guard case .headers(var headers) = property else { continue }
      while let field = headers.next(header) {
        guard case .list(let elements) = field.value, header.extracting(field.name.range).equals("x-death") else {
          continue
        }
        for var table in AMQPTableReader.tables(in: elements, header) {
          var (reason, queue, exchange, routingKey) = ("", "", "", "")
          while let (name, value) = table.next(header) {
            let name = header.extracting(name.range)
            if case .list(let keys) = value, name.equals("routing-keys") {
              routingKey = AMQPTableReader.texts(in: keys, header).first.map { text($0, header) } ?? ""
            }
            guard case .bytes(let range) = value else { continue }
            if name.equals("reason") { reason = text(range, header) }
            if name.equals("queue") { queue = text(range, header) }
            if name.equals("exchange") { exchange = text(range, header) }
          }
          guard !reason.isEmpty else { continue }
          deaths.append(AMQPDeath(reason: reason, queue: queue, exchange: exchange, routingKey: routingKey))
        }
      }
    }
    return deaths
  }

  private static func text(_ range: ByteRange, _ header: Span<UInt8>) -> String {
    String(decoding: range.range.map { header[$0] }, as: UTF8.self)
  }

  private enum Property {
    case headers(AMQPTableReader)
    case correlationID(ByteRange)
    case replyTo(ByteRange)
    case messageID(ByteRange)
    case timestamp(UInt64)
    case other
  }

  /// Walks the properties that the flags announce, in the protocol's order: bit 15 first.
  private struct Position {
    private var flags: UInt64 = 0
    private var bit = 15
    private var offset = AMQPPropertiesReader.flagsOffset

    init(_ header: Span<UInt8>) {
      guard let first = AMQPTableReader.unsigned(header, at: offset, size: 2) else { return }
      offset += 2
      // Bit 0 announces another word of flags; no property of `basic` is in it.
      var word = first
      while word & 1 != 0 {
        guard let next = AMQPTableReader.unsigned(header, at: offset, size: 2) else { return }
        word = next
        offset += 2
      }
      flags = first
    }

    /// The next property; nil after the last one, and if the rest cannot be read.
    mutating func next(_ header: Span<UInt8>) -> Property? {
      while bit >= 2, flags & (1 << UInt64(bit)) == 0 { bit -= 1 }
      guard bit >= 2 else { return nil }
      defer { bit -= 1 }
      switch bit {
      case 13:
        guard let table = AMQPTableReader(header, at: offset) else { return stop() }
        offset = table.endOffset
        return .headers(table)
      case 12, 11:
        offset += 1
        return .other
      case 6:
        guard let seconds = AMQPTableReader.unsigned(header, at: offset, size: 8) else { return stop() }
        offset += 8
        return .timestamp(seconds)
      default:
        guard offset < header.count else { return stop() }
        let range = ByteRange(start: offset + 1, count: Int(header[offset]))
        guard range.range.upperBound <= header.count else { return stop() }
        offset = range.range.upperBound
        return bit == 10 ? .correlationID(range) : bit == 7 ? .messageID(range) : bit == 9 ? .replyTo(range) : .other
      }
    }

    private mutating func stop() -> Property? {
      flags = 0
      return nil
    }
  }

  private static func readHeader(
    _ name: ByteRange, _ value: AMQPTableReader.Value, _ header: Span<UInt8>, into metadata: inout MessageMetadata
  ) {
    let name = header.extracting(name.range)
    switch value {
    case .number(let number):
      if name.equals("x-delivery-count") {
        metadata.deliveryCount = count(number)
      } else if name.equals("x-herald-attempts") {
        metadata.attempts = count(number)
      } else if name.equals("x-herald-first-seen") {
        metadata.firstSeen = number
      } else if name.equals("x-herald-paused-at") {
        metadata.pausedAt = number
      } else if name.equals("x-herald-order") {
        metadata.order = number
      } else if name.equals("x-herald-claim") {
        metadata.claim = UInt32(exactly: number) ?? 0
      } else if name.equals("x-herald-ambiguous") {
        metadata.isAmbiguous = number != 0
      } else if name.equals("x-herald-deliveries") {
        metadata.carriedDeliveries = count(number)
      } else if name.equals("x-herald-redeliveries") {
        metadata.redeliveries = count(number)
      } else if name.equals("x-herald-waits") {
        metadata.startWaits = count(number)
      }
    case .flag(let flag):
      if name.equals("x-herald-ambiguous") {
        metadata.isAmbiguous = flag
      } else if name.equals("x-herald-replay") {
        metadata.isReplay = flag
      } else if name.equals("x-herald-seen-late") {
        metadata.isSeenLate = flag
      } else if name.equals("x-herald-returning") {
        metadata.isReturning = flag
      }
    case .bytes(let range):
      guard range.range.count <= headerTextMaximum else { return }
      if name.equals("traceparent") {
        metadata.traceparent = copyText(range, header, into: &metadata)
      } else if name.equals("tracestate") {
        metadata.tracestate = copyText(range, header, into: &metadata)
      } else if name.equals("x-herald-apns-id") {
        metadata.apnsID = UUIDValue(header.extracting(range.range))
      } else if name.equals("x-herald-class") {
        let text = header.extracting(range.range)
        metadata.jobClass = text.equals("bulk") ? .bulk : text.equals("transactional") ? .transactional : nil
      } else if name.equals("x-herald-routing-key") {
        metadata.routingKey = copyText(range, header, into: &metadata)
      } else if name.equals("x-herald-undelivered") {
        let text = header.extracting(range.range)
        metadata.undelivered = text.equals("expired") ? .expired : text.equals("unroutable") ? .unroutable : nil
      }
    case .list, .other:
      break
    }
  }

  /// Anybody can write headers: a count is bounded here, so that what is added to it later cannot overflow.
  private static func count(_ number: Int64) -> UInt32 {
    UInt32(min(max(0, number), Int64(Limits.headerCountMaximum)))
  }

  /// Empty if it is not UTF-8: it is published as text.
  private static func copyText(
    _ range: ByteRange, _ header: Span<UInt8>, into metadata: inout MessageMetadata
  ) -> ByteRange {
    UTF8Check.isValid(header.extracting(range.range)) ? copy(range, header, into: &metadata) : .empty
  }

  private static func copy(
    _ range: ByteRange, _ header: Span<UInt8>, into metadata: inout MessageMetadata
  ) -> ByteRange {
    let start = metadata.bytes.count
    unsafe header.extracting(range.range).withUnsafeBufferPointer { unsafe metadata.bytes.append(contentsOf: $0) }
    return ByteRange(start: start, count: range.range.count)
  }
}
