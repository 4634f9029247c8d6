/// A fault that cannot be read: which word, and what should stand there.
public struct FaultSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
  public let word: String
  public let rule: String

  public var description: String { "`\(word)`: expected \(rule)" }
}
