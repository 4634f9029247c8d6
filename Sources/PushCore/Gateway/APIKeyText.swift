/// An API key as clients send it: `hk_`, an id of 8 letters and digits, `_`, and a secret of 32 letters and digits.
package struct APIKeyText: Sendable {
  package static let prefix = "hk_"
  private static let idCount = 8
  private static let secretCount = 32
  private static let alphabet = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789".utf8)

  /// Identifies the key. It is not secret.
  package let id: String
  /// The whole key.
  package let text: String

  /// nil: malformed.
  package init?(_ text: String) {
    let bytes = Array(text.utf8)
    let start = APIKeyText.prefix.utf8.count
    let dash = start + APIKeyText.idCount
    guard bytes.count == dash + 1 + APIKeyText.secretCount, text.hasPrefix(APIKeyText.prefix),
      bytes[dash] == UInt8(ascii: "_"),
      bytes[start..<dash].allSatisfy(APIKeyText.isLetter), bytes[(dash + 1)...].allSatisfy(APIKeyText.isLetter)
    else { return nil }
    id = String(decoding: bytes[start..<dash], as: UTF8.self)
    self.text = text
  }

  private static func isLetter(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: false
    }
  }

  /// Creates a key. Its secret has 190 random bits.
  package init(using random: inout some RandomNumberGenerator) {
    func letters(_ count: Int) -> String {
      String(
        decoding: (0..<count).map { _ in
          APIKeyText.alphabet[Int.random(in: 0..<APIKeyText.alphabet.count, using: &random)]
        }, as: UTF8.self)
    }
    id = letters(APIKeyText.idCount)
    text = "\(APIKeyText.prefix)\(id)_\(letters(APIKeyText.secretCount))"
  }
}
