/// Words that an app's records repeat (names of tags, locales, time zones, attributes types), each as a number. The
/// number is a hash of the word, so all workers agree on it without coordination. A table in Redis maps numbers to
/// words.
///
/// A word is written out if its number belongs to another word, or the table is full.
package struct DeviceWords: Sendable {
  /// Maximum words of one scope that get a number.
  package static let countMaximum = 65_535
  /// Words up to this length do not get a number: it would save nothing.
  package static let writtenOutBytesMaximum = 3

  /// 31 bits: the highest of the four bytes' bits marks a number.
  static let numberMaximum: UInt32 = 1 << 31 - 1

  /// The known part of the table.
  private var texts: [UInt32: String] = [:]
  /// Words whose number belongs to another word.
  private var refused: Set<ByteText> = []
  private var isFull = false

  package init() {}

  /// A word's number, whether or not the table has the word.
  static func hash(_ word: String) -> UInt32 {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2077, key1: 0x6F72_6473_2020_2020)
    hash.append(UInt64(word.utf8.count))
    hash.append(padding: word.utf8.span)
    return UInt32(truncatingIfNeeded: hash.finish().first) & DeviceWords.numberMaximum
  }

  /// The number to write for a word; nil: write it out.
  package func number(of word: String) -> UInt32? {
    guard word.utf8.count > DeviceWords.writtenOutBytesMaximum, !refused.contains(ByteText(word)) else { return nil }
    let number = DeviceWords.hash(word)
    guard let known = texts[number] else { return isFull ? nil : number }
    return known.hasBytes(of: word) ? number : nil
  }

  /// The word of a number; nil: unknown, ask the table.
  package func word(of number: UInt32) -> String? { texts[number] }

  /// The table has this word.
  package mutating func learned(_ number: UInt32, _ word: String) { texts[number] = word }

  /// The table has another word under this word's number.
  package mutating func clashed(_ word: String) { refused.insert(ByteText(word)) }

  /// The table is full. Words unknown here are written out from now on, even if the table has them.
  package mutating func filled() { isFull = true }
}
