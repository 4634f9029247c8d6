import PushCore

/// A Lua script for Redis, and the digest that runs it on a server that has it.
package struct LuaScript: Sendable {
  package let text: String
  /// SHA-1 of the text, 40 hex digits.
  package let digest: String

  package init(_ text: String) {
    self.text = text
    var hash = SHA1()
    hash.update(text.utf8.span)
    let words = hash.finish()
    var bytes: [UInt8] = []
    for word in [words.0, words.1, words.2, words.3, words.4] {
      for shift in stride(from: UInt32(24), through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: word >> shift))
      }
    }
    digest = Hex.text(bytes)
  }
}
