/// Why a simulator did not start: what was tried, and what to do.
public struct SimulatorError: Error, Sendable, CustomStringConvertible {
  public let description: String

  package init(_ description: String) {
    self.description = description
  }
}
