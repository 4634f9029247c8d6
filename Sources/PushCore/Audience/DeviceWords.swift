/// Words that an app's records repeat (names of tags, locales, time zones, attributes types), each as a number. The number is a hash of
/// the word, so all workers agree on it without asking; a table in Redis has each number's word.
///
/// A word that has no number of its own is written out: another one has its number, or the table is full.
package struct DeviceWords: Sendable {
  /// Words of one scope that get a number.
  package static let countMaximum = 65_535
  /// Those that are not longer are not worth a number.
  package static let writtenOutBytesMaximum = 3

  /// 31 bits, so that a record tells numbers from words with the rest of four bytes.
  static let numberMaximum: UInt32 = 1 << 31 - 1

  /// What the table is known to have.
  private var texts: [UInt32: String] = [:]
  /// Words that the table refused.
  private var refused: Set<String> = []
  private var isFull = false

  package init() {}

  /// A word's number, whether or not it has it.
  static func hash(_ word: String) -> UInt32 {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2077, key1: 0x6F72_6473_2020_2020)
    hash.append(UInt64(word.utf8.count))
    hash.append(padding: word.utf8.span)
    return UInt32(truncatingIfNeeded: hash.finish().first) & DeviceWords.numberMaximum
  }

  /// The number that stands for a word; nil: it is written out.
  package func number(of word: String) -> UInt32? {
    guard word.utf8.count > DeviceWords.writtenOutBytesMaximum, !refused.contains(word) else { return nil }
    let number = DeviceWords.hash(word)
    guard let known = texts[number] else { return isFull ? nil : number }
    return known == word ? number : nil
  }

  /// The word of a number; nil: the table must be asked.
  package func word(of number: UInt32) -> String? { texts[number] }

  /// The table has it.
  package mutating func learned(_ number: UInt32, _ word: String) { texts[number] = word }

  /// The table has another word under this one's number.
  package mutating func clashed(_ word: String) { refused.insert(word) }

  /// The table takes no more words. One that a record uses and this does not know is written out, although the table may have it.
  package mutating func filled() { isFull = true }
}
