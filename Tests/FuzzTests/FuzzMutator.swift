import PushCore

/// Mutates inputs from a seed: the same seed gives the same mutations.
struct FuzzMutator {
  private let corpus: [[UInt8]]
  private var random: SeededRandom

  static let countMaximum = 16 * 1024

  init(corpus: [[UInt8]], seed: UInt64) {
    self.corpus = corpus
    random = SeededRandom(seed: seed)
  }

  /// Numbers and characters at which parsers branch.
  private static let tokens: [[UInt8]] =
    [
      "\"", "\\", "{", "}", "[", "]", ",", ":", "-", "1e999", "\\ud800", "null", "\r\n", "*", "$", "\u{0}",
      "9223372036854775807", "-9223372036854775808", "2147483648", "        ",
    ].map { Array($0.utf8) } + [
      [0xFF], [0x80], [0xC3], [0xF0, 0x9F], [0xCE], [0xFF, 0xFF, 0xFF, 0xFF], [0x7F, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0],
    ]

  mutating func next() -> [UInt8] {
    var bytes = corpus.randomElement(using: &random) ?? []
    for _ in 0...Int.random(in: 0..<4, using: &random) { change(&bytes) }
    return Array(bytes.prefix(FuzzMutator.countMaximum))
  }

  private mutating func change(_ bytes: inout [UInt8]) {
    let place = Int.random(in: 0...bytes.count, using: &random)
    let end = min(bytes.count, place + Int.random(in: 0..<40, using: &random))
    switch Int.random(in: 0..<8, using: &random) {
    case 0 where place < bytes.count: bytes[place] = UInt8.random(in: 0...255, using: &random)
    case 1 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    case 2 where place < bytes.count: bytes[place] &+= Bool.random(using: &random) ? 1 : 255
    case 3: bytes.removeSubrange(place..<end)
    case 4: bytes.insert(contentsOf: Array(bytes[place..<end]), at: end)
    case 5: bytes.insert(contentsOf: FuzzMutator.tokens.randomElement(using: &random) ?? [], at: place)
    case 6:
      // The start of this input and the end of another.
      let other = corpus.randomElement(using: &random) ?? []
      bytes.replaceSubrange(place..., with: other.suffix(Int.random(in: 0...other.count, using: &random)))
    default: bytes.removeLast(min(bytes.count, Int.random(in: 0..<60, using: &random)))
    }
  }
}
