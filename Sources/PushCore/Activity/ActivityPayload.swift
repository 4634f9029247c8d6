/// The payload of a Live Activity's push: the values that an activity needs, and the places that Herald edits.
///
/// `PayloadRule` has the rules of its keys. Here a key that is read or edited must be unique, and of the right type.
/// null counts as absent.
package struct ActivityPayload: Sendable {
  /// The place of a key's value.
  struct Value: Hashable, Sendable {
    var range: ByteRange
    var isNull: Bool
  }

  enum Key: Int, CaseIterable, Sendable {
    case timestamp, event, contentState, attributesType, attributes, alert, staleDate, dismissalDate, inputPushToken,
      inputPushChannel

    var name: String {
      switch self {
      case .timestamp: "timestamp"
      case .event: "event"
      case .contentState: "content-state"
      case .attributesType: "attributes-type"
      case .attributes: "attributes"
      case .alert: "alert"
      case .staleDate: "stale-date"
      case .dismissalDate: "dismissal-date"
      case .inputPushToken: "input-push-token"
      case .inputPushChannel: "input-push-channel"
      }
    }

    var path: String { "payload.aps.\(name)" }
  }

  /// As written by the producer: one JSON object.
  package let bytes: [UInt8]
  package private(set) var event = ActivityEvent.update
  /// For a start: the Swift type of the app's attributes; empty if missing.
  package private(set) var attributesType = ""
  /// After the opening brace of `aps`.
  private(set) var apsStart = 0
  private(set) var apsIsEmpty = true
  private var values = [Value?](repeating: nil, count: Key.allCases.count)

  private static let keys = KeyTable(Key.allCases.map(\.name))

  /// - Throws: the detail of an invalid job.
  package init(_ bytes: [UInt8]) throws(JobError) {
    self.bytes = bytes
    var fault: JobError?
    do throws(JSONError) {
      fault = try scan(bytes.span)
    } catch {
      throw JobError(error, in: bytes.span)
    }
    if let fault { throw fault }
    guard apsStart > 0 else { throw JobError(field: "payload.aps", rule: "must be an object for a Live Activity") }
    try readEvent(bytes.span)
    try check(bytes.span, .contentState, ASCII.openBrace, "an object")
    try check(bytes.span, .attributes, ASCII.openBrace, "an object")
    try check(bytes.span, .attributesType, ASCII.quote, "a string")
    if let type = self[.attributesType] {
      let content = ByteRange(start: Int(type.range.start) + 1, count: Int(type.range.count) - 2)
      attributesType = String(decoding: JSONEscape.unescaped(content, of: bytes.span), as: UTF8.self)
    }
  }

  /// The value of a key; nil: absent or null.
  subscript(key: Key) -> Value? {
    values[key.rawValue].flatMap { $0.isNull ? nil : $0 }
  }

  /// The value of a key, even if null.
  func written(_ key: Key) -> Value? { values[key.rawValue] }

  package var hasAlert: Bool { self[.alert] != nil }
  package var hasStaleDate: Bool { self[.staleDate] != nil }
  package var hasDismissalDate: Bool { self[.dismissalDate] != nil }
  /// The start itself says how updates arrive.
  package var hasUpdateWay: Bool { self[.inputPushToken] != nil || self[.inputPushChannel] != nil }

  /// Unix seconds; nil: absent, or none.
  package var timestamp: Int64? {
    self[.timestamp].flatMap { Int64(String(decoding: bytes[$0.range.range], as: UTF8.self)) }
  }

  /// Of a start: the channel that it names for its updates, as a string.
  package var inputPushChannel: String? {
    guard let value = self[.inputPushChannel], bytes[Int(value.range.start)] == ASCII.quote else { return nil }
    let content = ByteRange(start: Int(value.range.start) + 1, count: Int(value.range.count) - 2)
    return String(decoding: JSONEscape.unescaped(content, of: bytes.span), as: UTF8.self)
  }

  /// What the activity shows from now on: a JSON object, as written.
  package var contentState: [UInt8]? {
    self[.contentState].map { Array(bytes[$0.range.range]) }
  }

  /// Equal for two starts that differ only in the timestamp.
  package var digest: UInt64 {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2061, key1: 0x6374_6976_6974_792E)
    let all = bytes.span
    let timestamp = written(.timestamp)?.range.range ?? bytes.count..<bytes.count
    hash.append(UInt64(timestamp.lowerBound))
    hash.append(padding: all.extracting(0..<timestamp.lowerBound))
    hash.append(UInt64(bytes.count - timestamp.upperBound))
    hash.append(padding: all.extracting(timestamp.upperBound..<bytes.count))
    return hash.finish().first
  }

  /// `apns-priority`: the job's own, else by the event. APNs allows an app few pushes of priority 10 an hour, and any
  /// number of 5.
  package func priority(ofJob priority: UInt8?) -> UInt8 {
    if let priority { return priority }
    return switch event {
    case .start, .end: 10
    case .update: hasAlert ? 10 : 5
    }
  }

  // MARK: - Reading

  /// Returns the first duplicate of our keys.
  private mutating func scan(_ bytes: Span<UInt8>) throws(JSONError) -> JobError? {
    var scanner = JSONScanner()
    var fault: JobError?
    if try scanner.beginObject(bytes) {
      repeat {
        let name = try scanner.key(bytes)
        let isAPS = JSONEscape.unescaped(name.range, of: bytes).elementsEqual("aps".utf8)
        guard isAPS, scanner.peek(bytes) == ASCII.openBrace else {
          try scanner.skipValue(bytes)
          continue
        }
        if apsStart > 0 { fault = fault ?? ActivityPayload.twice("payload.aps") }
        apsStart = scanner.position + 1
        let found = try scanAPS(bytes, &scanner)
        fault = fault ?? found
      } while try scanner.nextMember(bytes)
    }
    try scanner.end(bytes)
    return fault
  }

  private mutating func scanAPS(_ bytes: Span<UInt8>, _ scanner: inout JSONScanner) throws(JSONError) -> JobError? {
    var fault: JobError?
    apsIsEmpty = true
    guard try scanner.beginObject(bytes) else { return nil }
    apsIsEmpty = false
    repeat {
      let name = try scanner.key(bytes)
      let index = ActivityPayload.keys.index(bytes, name)
      let isNull = scanner.peek(bytes) == UInt8(ascii: "n")
      let start = scanner.position
      try scanner.skipValue(bytes)
      guard let index, let key = Key(rawValue: index) else { continue }
      if values[index] != nil { fault = fault ?? ActivityPayload.twice(key.path) }
      values[index] = Value(range: ByteRange(start: start, count: scanner.position - start), isNull: isNull)
    } while try scanner.nextMember(bytes)
    return fault
  }

  static func twice(_ path: String) -> JobError {
    JobError(field: path, rule: "must be there once, not twice")
  }

  private mutating func readEvent(_ bytes: Span<UInt8>) throws(JobError) {
    var seen = ", and is missing"
    if let value = self[.event] {
      for known in ActivityEvent.allCases where bytes.extracting(value.range.range).equals("\"\(known)\"") {
        event = known
        return
      }
      seen = ", not \(JobError.describe(bytes, valueAt: Int(value.range.start)))"
    }
    throw JobError(field: Key.event.path, rule: "must be start, update or end for a Live Activity\(seen)")
  }

  private func check(
    _ bytes: Span<UInt8>, _ key: Key, _ first: UInt8, _ kind: String
  ) throws(JobError) {
    guard let value = self[key], bytes[Int(value.range.start)] != first else { return }
    let seen = JobError.describe(bytes, valueAt: Int(value.range.start))
    throw JobError(field: key.path, rule: "must be \(kind), not \(seen)")
  }
}
