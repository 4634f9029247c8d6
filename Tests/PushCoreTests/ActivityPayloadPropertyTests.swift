import PushCore
import Testing

/// Random payloads, edited: what was asked for is there, and every other byte is where it was.
@Suite(.timeLimit(.minutes(2)))
struct ActivityPayloadPropertyTests {
  @Test func nothingElseChanges() throws {
    var random = SeededRandom(seed: 0x6163_7469)
    for round in 0..<5_000 {
      let written = RandomPayload(&random)
      let payload = try ActivityPayload(Array(written.text.utf8))
      var edits = ActivityEdits(timestamp: 1_796_000_000 + Int64(round))
      let path = ["id", "a.id", "b.c.id", "x"][Int(random.next() % 4)]
      let id = try #require(ActivityID("ride \"\(round)\""))
      if random.next() % 2 == 0 { edits.id = (id, try #require(ActivityIDAttribute(path))) }
      if random.next() % 2 == 0 { edits.staleAfterSeconds = 60 }
      if random.next() % 2 == 0 { edits.contentState = Array("{\"last\":true}".utf8) }
      let edited: [UInt8]
      do throws(JobError) {
        edited = try payload.edited(edits)
      } catch {
        #expect(error.field.hasPrefix("payload.aps.attributes"), "\(error.detail)")
        continue
      }
      let text = String(decoding: edited, as: UTF8.self)
      var expected = try #require(PlainJSON(written.text))
      expected["aps"]?["timestamp"] = .scalar("\(edits.timestamp)")
      if payload.event == .start, edits.id != nil {
        expected["aps"]?.set(
          ["attributes"] + path.split(separator: ".").map(String.init), .scalar("\"ride \\\"\(round)\\\"\""))
      }
      if payload.event != .end, edits.staleAfterSeconds != nil, !payload.hasStaleDate {
        expected["aps"]?["stale-date"] = .scalar("\(edits.timestamp + 60)")
      }
      if payload.event == .end, edits.contentState != nil, payload.contentState == nil {
        expected["aps"]?["content-state"] = .object([("last", .scalar("true"))])
      }
      let found = try #require(PlainJSON(text), "\(text)")
      #expect(found.sorted == expected.sorted, "\(written.text)\n\(text)")
      #expect(isSubsequence(written.fixed, of: text), "\(written.text)\n\(text)")
      // What is edited can be edited again, and then says the same.
      let again = try ActivityPayload(edited).edited(edits)
      #expect(again == edited)
    }
  }

  /// Whether the pieces stand in the text in their order, none over another.
  private func isSubsequence(_ pieces: [String], of text: String) -> Bool {
    var rest = text[...]
    for piece in pieces {
      guard let range = rest.firstRange(of: piece) else { return false }
      rest = rest[range.upperBound...]
    }
    return true
  }
}

/// A Live Activity's payload in some producer's hand: keys in any order, white space anywhere, other keys between.
struct RandomPayload {
  private(set) var text = ""
  /// Pieces of the text that stay, in their order.
  private(set) var fixed: [String] = []

  init(_ random: inout SeededRandom) {
    func chance(_ one: UInt64) -> Bool { random.next() % one == 0 }
    func space() -> String { ["", "", " ", "\n  ", "\t"][Int(random.next() % 5)] }
    let event = ["start", "update", "end"][Int(random.next() % 3)]
    // What may be replaced is a piece of its own.
    var members: [(key: String, value: String, isFixed: Bool)] = [("event", "\"\(event)\"", true)]
    if chance(2) { members.append(("timestamp", ["5", "null", "1796000000"][Int(random.next() % 3)], false)) }
    if event != "end" || chance(2) {
      members.append(("content-state", "{\(space())\"eta\"\(space()): [1,2.50] }", true))
    }
    if chance(3) { members.append(("stale-date", chance(2) ? "null" : "1.5", false)) }
    if chance(3) { members.append(("alert", "{\"title\" :\"\\u00e9 \\\"\", \"body\":\"b\"}", true)) }
    if chance(2) {
      let attributes = [
        "{}", "{ }", "{\"a\":{}}", "{\"a\" : {\"z\":1}}", "{\"z\":{\"id\":1}}", "{\"b\":{\"c\":{\"y\":0}}}",
        "{\"x\":\"old\"}",
        "{\"x\":null,\"y\":[]}", "{\"a\":7}", "{\"id\":[]}",
      ][Int(random.next() % 10)]
      members.append(("attributes", attributes, false))
    }
    for number in 0..<random.next() % 3 { members.append(("mine-\(number)", "[{\"aps\":{\"timestamp\":1}}]", true)) }
    members.shuffle(using: &random)
    var aps = "{"
    for (place, member) in members.enumerated() {
      if place > 0 { aps += "," }
      let head = "\(space())\"\(member.key)\"\(space()):\(space())"
      aps += head + member.value + space()
      fixed.append(member.isFixed ? head + member.value : head)
    }
    aps += "}"
    let other = "\"other\":{\"timestamp\":\(space())2}"
    if chance(2) {
      text = "{\(space())\"aps\":\(space())\(aps),\(other)}"
      fixed = ["{"] + fixed + [other]
    } else {
      text = "{\(other),\(space())\"aps\"\(space()):\(aps)\(space())}"
      fixed = [other] + fixed + ["}"]
    }
  }
}

/// JSON as a tree: scalars as they are written.
indirect enum PlainJSON: Equatable {
  case scalar(String)
  case array([PlainJSON])
  case object([(key: String, value: PlainJSON)])

  init?(_ text: String) {
    let bytes = Array(text.utf8)
    var scanner = JSONScanner()
    guard let value = try? PlainJSON.read(bytes, &scanner), (try? scanner.end(bytes.span)) != nil else { return nil }
    self = value
  }

  private static func read(_ bytes: [UInt8], _ scanner: inout JSONScanner) throws -> PlainJSON {
    switch scanner.peek(bytes.span) {
    case UInt8(ascii: "{"):
      var members: [(key: String, value: PlainJSON)] = []
      guard try scanner.beginObject(bytes.span) else { return .object([]) }
      repeat {
        let key = try scanner.key(bytes.span)
        members.append((String(decoding: bytes[key.range.range], as: UTF8.self), try read(bytes, &scanner)))
      } while try scanner.nextMember(bytes.span)
      return .object(members)
    case UInt8(ascii: "["):
      var elements: [PlainJSON] = []
      guard scanner.beginArray(bytes.span) else { return .array([]) }
      repeat { elements.append(try read(bytes, &scanner)) } while try scanner.nextElement(bytes.span)
      return .array(elements)
    default:
      let start = scanner.position
      try scanner.skipValue(bytes.span)
      return .scalar(String(decoding: bytes[start..<scanner.position], as: UTF8.self))
    }
  }

  subscript(key: String) -> PlainJSON? {
    get {
      guard case .object(let members) = self else { return nil }
      return members.first { $0.key == key }?.value
    }
    set {
      guard case .object(var members) = self, let newValue else { return }
      members.removeAll { $0.key == key }
      self = .object(members + [(key, newValue)])
    }
  }

  /// Sets a value at a path; objects on the way are made.
  mutating func set(_ path: [String], _ value: PlainJSON) {
    guard let key = path.first else {
      self = value
      return
    }
    if case .object = self {} else { self = .object([]) }
    var inner = self[key] ?? .object([])
    inner.set(Array(path.dropFirst()), value)
    self[key] = inner
  }

  /// Members in the order of their keys.
  var sorted: PlainJSON {
    switch self {
    case .scalar: self
    case .array(let elements): .array(elements.map(\.sorted))
    case .object(let members): .object(members.map { ($0.key, $0.value.sorted) }.sorted { $0.0 < $1.0 })
    }
  }

  static func == (left: PlainJSON, right: PlainJSON) -> Bool {
    switch (left, right) {
    case (.scalar(let one), .scalar(let other)): one == other
    case (.array(let one), .array(let other)): one == other
    case (.object(let one), .object(let other)):
      one.count == other.count && zip(one, other).allSatisfy { $0.key == $1.key && $0.value == $1.value }
    case (.scalar, _), (.array, _), (.object, _): false
    }
  }
}
