/// Why an event loop or a descriptor could not be set up: the failed call, and the system's error.
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
