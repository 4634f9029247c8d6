import Glibc

/// Starts this process' program anew.
package enum ProcessRestart {
  /// Returns only if the environment variable has this value already; else the program starts again with it, and the same arguments.
  ///
  /// What the runtime reads before `main`, such as how it hashes, can be set in no other way.
  package static func withEnvironment(_ name: String, _ value: String) throws(LoopError) {
    if let known = unsafe getenv(name), unsafe String(cString: known) == value { return }
    guard unsafe setenv(name, value, 1) == 0 else { throw LoopError(call: "setenv", code: errno) }
    _ = unsafe execv("/proc/self/exe", CommandLine.unsafeArgv)
    throw LoopError(call: "execv", code: errno)
  }
}
