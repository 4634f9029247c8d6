/// Why the event loop or one of its descriptors could not be set up: which call failed, and what the system said.
package struct LoopError: Error, Sendable, CustomStringConvertible {
  /// The system call.
  package let call: String
  /// Its `errno`.
  package let code: Int32

  package init(call: String, code: Int32) {
    self.call = call
    self.code = code
  }

  package var description: String {
    "\(call) failed: \(systemErrorText(code)); check the limit of open files (ulimit -n) and the memory limit"
  }
}
