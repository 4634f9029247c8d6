import Foundation

/// Shifts the wall clock of a child process: a small library, made by the C compiler, answers in the C library's place.
package enum ShiftedClock {
  /// The variables of a process whose clock is so far ahead; negative: behind.
  /// - Parameter folder: keeps the library.
  package static func environment(millisecondsAhead: Int, _ folder: TemporaryFolder) throws(TestFailure) -> [String] {
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
    let (text, library) = (root.appending(path: "scripts/chaos/clock.c").path, folder.path("clock.so"))
    let made = try ChildProcess.run(
      ["/usr/bin/env", "cc", "-shared", "-fPIC", "-O1", "-o", library, text], timeoutMilliseconds: 60_000)
    guard made.status == 0 else { throw TestFailure("cc: \(made.errors)") }
    return ["LD_PRELOAD=\(library)", "SHIFTED_CLOCK_MS=\(millisecondsAhead)"]
  }
}
