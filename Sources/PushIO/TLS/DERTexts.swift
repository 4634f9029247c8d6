/// Extracts the texts of a DER value, in order: of the value itself, or of the sequence that it is, not of sequences in that one.
struct DERTexts {
  private let bytes: [UInt8]
  private(set) var texts: [String] = []

  /// Apple puts the kinds of a topic into a sequence behind it.
  private static let depthMaximum = 1
  /// A certificate is foreign input.
  private static let textsMaximum = 256

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
    read(0..<bytes.count, depth: 0)
  }

  private mutating func read(_ range: Range<Int>, depth: Int) {
    var place = range.lowerBound
    while place + 2 <= range.upperBound, texts.count < DERTexts.textsMaximum {
      let tag = bytes[place]
      guard let content = content(after: place + 1, end: range.upperBound) else { return }
      switch tag {
      case 0x0C, 0x13, 0x16:
        // UTF8String, PrintableString, IA5String
        texts.append(String(decoding: bytes[content], as: UTF8.self))
      case 0x30, 0x31:
        // SEQUENCE, SET
        if depth < DERTexts.depthMaximum { read(content, depth: depth + 1) }
      default:
        break
      }
      place = content.upperBound
    }
  }

  /// The content whose length is at `place`; nil if it does not fit.
  private func content(after place: Int, end: Int) -> Range<Int>? {
    let first = Int(bytes[place])
    if first < 0x80 { return place + 1 + first <= end ? place + 1..<place + 1 + first : nil }
    let lengthBytes = first & 0x7F
    guard (1...3).contains(lengthBytes), place + 1 + lengthBytes <= end else { return nil }
    var length = 0
    for offset in 0..<lengthBytes { length = length << 8 | Int(bytes[place + 1 + offset]) }
    let start = place + 1 + lengthBytes
    return length <= end - start ? start..<start + length : nil
  }

  /// One DER value: a tag, its length, its content (up to 65,535 bytes).
  static func encode(tag: UInt8, _ content: [UInt8]) -> [UInt8] {
    precondition(content.count <= 0xFFFF, "a DER value written here has at most 65,535 bytes")
    if content.count < 0x80 { return [tag, UInt8(content.count)] + content }
    return [tag, 0x82, UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
  }
}
