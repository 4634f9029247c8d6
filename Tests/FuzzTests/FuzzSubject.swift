/// What a fuzzer runs: takes bytes from an untrusted sender, and reports broken promises.
///
/// An instance takes one input after another, as a lane does, and keeps its buffers between them. It must not trap, hang
/// or grow without bound, whatever the bytes are.
protocol FuzzSubject: AnyObject, SendableMetatype {
  init() throws(FuzzFinding)
  func run(_ bytes: [UInt8]) throws(FuzzFinding)
}

/// A promise that an input broke.
struct FuzzFinding: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}

/// If the condition is false, the input is a finding.
func holds(_ promise: Bool, _ text: @autoclosure () -> String) throws(FuzzFinding) {
  if !promise { throw FuzzFinding(text()) }
}
