import PushCore

/// Writes JSON: for answers, the ledger and the control port. Not for the hot path.
package struct JSONText: Sendable {
  package private(set) var bytes: [UInt8] = []
  private var needsComma = false

  package init() {}

  /// JSON that was written elsewhere.
  package init(raw bytes: [UInt8]) {
    self.bytes = bytes
  }

  package var text: String { String(decoding: bytes, as: UTF8.self) }

  package mutating func beginObject() { open("{") }
  package mutating func endObject() { close("}") }
  package mutating func beginArray() { open("[") }
  package mutating func endArray() { close("]") }

  package mutating func key(_ name: String) {
    value(name)
    bytes.append(UInt8(ascii: ":"))
    needsComma = false
  }

  package mutating func value(_ text: String) {
    separate()
    bytes.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(byte)
      case 0..<0x20:
        bytes.append(contentsOf: "\\u00".utf8)
        bytes.append(Hex.digit(byte >> 4))
        bytes.append(Hex.digit(byte & 15))
      default:
        bytes.append(byte)
      }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  package mutating func value(_ number: Int64) { raw(String(number)) }
  package mutating func value(_ number: Int) { raw(String(number)) }
  package mutating func value(_ flag: Bool) { raw(flag ? "true" : "false") }
  package mutating func null() { raw("null") }

  /// JSON from elsewhere.
  package mutating func raw(_ json: some Sequence<UInt8>) {
    separate()
    bytes.append(contentsOf: json)
  }

  package mutating func raw(_ json: String) { raw(json.utf8) }

  package mutating func field(_ name: String, _ text: String) {
    key(name)
    value(text)
  }
  package mutating func field(_ name: String, _ number: Int64) {
    key(name)
    value(number)
  }
  package mutating func field(_ name: String, _ number: Int) {
    key(name)
    value(number)
  }
  package mutating func field(_ name: String, _ flag: Bool) {
    key(name)
    value(flag)
  }

  package mutating func field(_ name: String, _ text: String?) {
    key(name)
    if let text { value(text) } else { null() }
  }

  package mutating func field(_ name: String, _ number: Int64?) {
    key(name)
    if let number { value(number) } else { null() }
  }

  /// Ends a line of JSON Lines.
  package mutating func newLine() {
    bytes.append(UInt8(ascii: "\n"))
    needsComma = false
  }

  private mutating func open(_ bracket: Unicode.Scalar) {
    separate()
    bytes.append(UInt8(ascii: bracket))
    needsComma = false
  }

  private mutating func close(_ bracket: Unicode.Scalar) {
    bytes.append(UInt8(ascii: bracket))
    needsComma = true
  }

  private mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }
}
