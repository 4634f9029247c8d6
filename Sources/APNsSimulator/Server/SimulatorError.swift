/// Why a simulator did not start: what was tried, and what to do.
package struct SimulatorError: Error, Sendable, CustomStringConvertible {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}
