/// What went wrong with a helper of the tests, in words that say what to do.
package struct TestFailure: Error, CustomStringConvertible, Sendable {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}
