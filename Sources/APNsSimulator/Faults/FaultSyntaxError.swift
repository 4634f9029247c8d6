/// A fault that cannot be parsed: the wrong word, and what is expected.
public struct FaultSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The part of the text that is wrong.
  public let word: String
  /// What is expected instead.
  public let rule: String

  public var description: String { "`\(word)`: expected \(rule)" }
}
