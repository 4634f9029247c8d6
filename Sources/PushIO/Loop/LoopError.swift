import Glibc

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
    let advice =
      switch code {
      case EMFILE, ENFILE, ENOBUFS, ENOMEM: "; check the limit of open files (ulimit -n) and the memory limit"
      case EADDRINUSE: "; end the program that listens there, or choose another address"
      default: ""
      }
    return "\(call) failed: \(systemErrorText(code))\(advice)"
  }
}
