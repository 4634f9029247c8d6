import CRabbitMQ
package import PushCore

/// The properties of one publish, reused for each: persistent JSON by default. Texts are copied into its own memory, and librabbitmq
/// encodes them. Only the first use allocates.
@safe
package final class AMQPProperties {
  /// Maximum number of a message's headers.
  package static let headerCountMaximum = 20
  /// A header's text is cut to this many bytes, a short property to 255.
  package static let headerTextMaximum = 4096
  private static let shortTextMaximum = 255
  private static let textsCapacity = headerCountMaximum * (headerTextMaximum + 64) + 6 * shortTextMaximum
  /// An encoded header of this size always fits.
  static let encodedMaximum = textsCapacity + 1024

  private var properties = unsafe amqp_basic_properties_t()
  private let headers: UnsafeMutablePointer<amqp_table_entry_t>
  private var headerCount = 0
  private let texts: UnsafeMutablePointer<UInt8>
  private var textsCount = 0
  private var idText: [UInt8] = []

  package init() {
    unsafe headers = .allocate(capacity: AMQPProperties.headerCountMaximum)
    unsafe headers.initialize(repeating: amqp_table_entry_t(), count: AMQPProperties.headerCountMaximum)
    unsafe texts = .allocate(capacity: AMQPProperties.textsCapacity)
    reset()
  }

  deinit {
    unsafe headers.deallocate()
    unsafe texts.deallocate()
  }

  /// A persistent message of `application/json` without other properties.
  package func reset() {
    textsCount = 0
    headerCount = 0
    unsafe properties._flags = Self.flag(15) | Self.flag(12)
    unsafe properties.content_type = copy("application/json")
    unsafe properties.delivery_mode = 2
  }

  /// Sets none if the text is not UTF-8: a producer's message id may be any bytes.
  package func setMessageID(_ text: Span<UInt8>) {
    guard UTF8Check.isValid(text) else { return }
    unsafe properties.message_id = copy(text, maximum: AMQPProperties.shortTextMaximum)
    unsafe properties._flags |= Self.flag(7)
  }

  package func setMessageID(_ id: UUIDValue) {
    unsafe properties.message_id = copy(id)
    unsafe properties._flags |= Self.flag(7)
  }

  package func setCorrelationID(_ text: Span<UInt8>) {
    unsafe properties.correlation_id = copy(text, maximum: AMQPProperties.shortTextMaximum)
    unsafe properties._flags |= Self.flag(10)
  }

  package func setReplyTo(_ text: Span<UInt8>) {
    unsafe properties.reply_to = copy(text, maximum: AMQPProperties.shortTextMaximum)
    unsafe properties._flags |= Self.flag(9)
  }

  package func setType(_ text: StaticString) {
    unsafe properties.type = copy(text)
    unsafe properties._flags |= Self.flag(5)
  }

  /// `timestamp`: AMQP has seconds, so the milliseconds are cut.
  package func setTimestamp(unixMilliseconds: Int64) {
    unsafe properties.timestamp = UInt64(max(0, unixMilliseconds / 1000))
    unsafe properties._flags |= Self.flag(6)
  }

  /// `expiration`: how long it stays in a queue at most.
  package func setExpiration(milliseconds: Int64) {
    unsafe properties.expiration = copy("\(milliseconds)".utf8.span, maximum: AMQPProperties.shortTextMaximum)
    unsafe properties._flags |= Self.flag(8)
  }

  package func addHeader(_ name: StaticString, _ text: Span<UInt8>) {
    unsafe addHeader(name, kind: UInt8(ascii: "S")) {
      unsafe $0.bytes = $1
    } text: {
      unsafe copy(text, maximum: AMQPProperties.headerTextMaximum)
    }
  }

  package func addHeader(_ name: StaticString, _ text: String) {
    addHeader(name, text.utf8.span)
  }

  package func addHeader(_ name: StaticString, literal text: StaticString) {
    unsafe addHeader(name, kind: UInt8(ascii: "S")) {
      unsafe $0.bytes = $1
    } text: {
      unsafe copy(text)
    }
  }

  package func addHeader(_ name: StaticString, _ id: UUIDValue) {
    unsafe addHeader(name, kind: UInt8(ascii: "S")) {
      unsafe $0.bytes = $1
    } text: {
      unsafe copy(id)
    }
  }

  package func addHeader(_ name: StaticString, _ number: Int64) {
    unsafe addHeader(name, kind: UInt8(ascii: "l")) { value, _ in
      unsafe value.i64 = number
    } text: {
      unsafe amqp_bytes_t()
    }
  }

  package func addHeader(_ name: StaticString, _ flag: Bool) {
    unsafe addHeader(name, kind: UInt8(ascii: "t")) { value, _ in
      unsafe value.boolean = flag ? 1 : 0
    } text: {
      unsafe amqp_bytes_t()
    }
  }

  /// Appends the content header frame of a message with a body of `bodyCount` bytes.
  func appendFrame(channel: UInt16, bodyCount: Int, to out: inout ByteQueue) {
    let frameStart = out.count
    out.append(AMQPFrame.Kind.header.rawValue)
    out.appendBigEndian(channel)
    out.appendBigEndian(UInt32(0))
    out.appendBigEndian(UInt16(60))
    out.appendBigEndian(UInt16(0))
    out.appendBigEndian(UInt64(bodyCount))
    if headerCount > 0 {
      unsafe properties.headers = amqp_table_t(num_entries: Int32(headerCount), entries: headers)
      unsafe properties._flags |= Self.flag(13)
    }
    let written = unsafe withUnsafeMutablePointer(to: &properties) { pointer in
      unsafe out.appendUnsafe(capacity: textsCount + 1024) { buffer in
        let target = unsafe amqp_bytes_t(len: buffer.count, bytes: UnsafeMutableRawPointer(buffer.baseAddress))
        let written = unsafe amqp_encode_properties(60, pointer, target)
        precondition(written >= 0, "message properties did not fit")
        return Int(written)
      }
    }
    out.replaceBigEndian(UInt32(12 + written), at: frameStart + 3)
    out.append(AMQPFrame.endMark)
  }

  private static func flag(_ bit: UInt32) -> amqp_flags_t { amqp_flags_t(1) << bit }

  @inline(__always)
  private func addHeader(
    _ name: StaticString, kind: UInt8,
    set: (inout amqp_field_value_t.__Unnamed_union_value, amqp_bytes_t) -> Void, text: () -> amqp_bytes_t
  ) {
    precondition(headerCount < AMQPProperties.headerCountMaximum, "more headers than a message may carry")
    // The name is a literal: it lives as long as the program.
    let key = unsafe amqp_bytes_t(
      len: name.utf8CodeUnitCount, bytes: UnsafeMutableRawPointer(mutating: name.utf8Start))
    unsafe headers[headerCount].key = key
    unsafe headers[headerCount].value.kind = kind
    unsafe set(&headers[headerCount].value.value, text())
    headerCount += 1
  }

  private func copy(_ text: StaticString) -> amqp_bytes_t {
    unsafe amqp_bytes_t(len: text.utf8CodeUnitCount, bytes: UnsafeMutableRawPointer(mutating: text.utf8Start))
  }

  private func copy(_ text: Span<UInt8>, maximum: Int) -> amqp_bytes_t {
    var count = min(text.count, maximum)
    // Cut between two characters.
    while count > 0, count < text.count, text[count] & 0xC0 == 0x80 { count -= 1 }
    let start = unsafe texts + reserve(count)
    unsafe text.withUnsafeBufferPointer { source in
      if let base = source.baseAddress { unsafe start.update(from: base, count: count) }
    }
    return unsafe amqp_bytes_t(len: count, bytes: start)
  }

  private func copy(_ id: UUIDValue) -> amqp_bytes_t {
    idText.removeAll(keepingCapacity: true)
    id.write(to: &idText)
    let text = idText
    return unsafe copy(text.span, maximum: UUIDValue.textCount)
  }

  private func reserve(_ count: Int) -> Int {
    precondition(textsCount + count <= AMQPProperties.textsCapacity, "a property set twice in one message")
    defer { textsCount += count }
    return textsCount
  }
}
