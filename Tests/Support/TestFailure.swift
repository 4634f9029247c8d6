/// A failure of a test helper; the text says what to do.
package struct TestFailure: Error, CustomStringConvertible, Sendable {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}
