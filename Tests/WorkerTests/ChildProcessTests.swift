import Foundation
import TestSupport
import Testing

/// What tests do to the processes that they start.
@Suite(.timeLimit(.minutes(1)))
struct ChildProcessTests {
  /// More busy processes than a small machine has cores: the kernel stops each only once it is scheduled.
  @Test func whatIsPausedStandsStill() throws {
    let busy = "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait"
    let child = try ChildProcess(["/bin/sh", "-c", busy])
    for _ in 0..<20 {
      child.pause()
      let ticks = try ticks(ofGroup: child.pid)
      Thread.sleep(forTimeInterval: 0.05)
      #expect(try self.ticks(ofGroup: child.pid) == ticks)
      child.resume()
      Thread.sleep(forTimeInterval: 0.02)
    }
    #expect(try ticks(ofGroup: child.pid).count == 9, "the shell and its loops")
  }

  /// The state of each process of the group, and what it was charged for in ticks of the clock.
  private func ticks(ofGroup group: Int32) throws -> [Int32: [Substring]] {
    var ticks: [Int32: [Substring]] = [:]
    for name in try FileManager.default.contentsOfDirectory(atPath: "/proc") {
      guard let pid = Int32(name), let text = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8),
        let end = text.lastIndex(of: ")")
      else { continue }
      // State, parent, group; the times of user and system are the eleventh and twelfth behind the state.
      let fields = text[text.index(after: end)...].split(separator: " ")
      if fields[2] == "\(group)" { ticks[pid] = [fields[0], fields[11], fields[12]] }
    }
    return ticks
  }
}
