import Glibc
import TestSupport

/// A running `herald run` and its log.
struct WorkerProcess {
  let child: ChildProcess
  fileprivate let folder: TemporaryFolder
  fileprivate let logName: String

  init(child: ChildProcess, folder: TemporaryFolder, logName: String) {
    self.child = child
    self.folder = folder
    self.logName = logName
  }

  /// Its whole log.
  var log: String { folder.read(logName) }
  var lines: [Substring] { log.split(separator: "\n") }

  /// Waits for a log line with all of these words; false: none came in time.
  func waitForLine(_ words: String..., seconds: Int = 20) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 50) {
      lines.contains { line in words.allSatisfy { line.contains($0) } } ? true : nil
    } ?? false
  }

  func waitForExit(seconds: Int) -> Int32? { child.wait(timeoutMilliseconds: seconds * 1000) }

  /// Sends SIGTERM and waits. Returns the exit status; nil: it did not end in time.
  func drain(seconds: Int) -> Int32? {
    child.signalLeader(SIGTERM)
    return waitForExit(seconds: seconds)
  }
}
