/// A fault that cannot be read: which word, and what should stand there.
public struct FaultSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The part of the text that is wrong.
  public let word: String
  /// What should stand there.
  public let rule: String

  public var description: String { "`\(word)`: expected \(rule)" }
}
