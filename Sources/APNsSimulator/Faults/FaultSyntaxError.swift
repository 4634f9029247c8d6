/// A fault that cannot be read: which word, and what should stand there.
package struct FaultSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
  package let word: String
  package let rule: String

  package var description: String { "`\(word)`: expected \(rule)" }
}
