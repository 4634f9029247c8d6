import Glibc
import PushIO
import Testing

/// A signal ends the process whatever its other threads block.
@Suite(.timeLimit(.minutes(1)))
struct TerminationSignalsTests {
  @Test func oneThreadAlwaysTakesThem() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      TerminationSignals.restoreDefaults()
      // The main thread is another one: it blocks signals now and then.
      while !threads().contains(where: { $0.id != getpid() && $0.takes(SIGTERM) && $0.takes(SIGINT) }) { usleep(1_000) }
      kill(getpid(), SIGTERM)
      while true { pause() }
    }
  }
}

private struct ThreadSignals {
  let id: Int32
  let blocked: UInt64

  func takes(_ signal: Int32) -> Bool { blocked & (1 << UInt64(signal - 1)) == 0 }
}

/// The threads of this process, as the kernel lists them.
private func threads() -> [ThreadSignals] {
  var found: [ThreadSignals] = []
  guard let folder = unsafe opendir("/proc/self/task") else { return [] }
  defer { unsafe closedir(folder) }
  while let entry = unsafe readdir(folder) {
    let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
      unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    guard let id = Int32(name), let file = unsafe fopen("/proc/self/task/\(id)/status", "r") else { continue }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while unsafe fgets(&line, 256, file) != nil {
      let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      guard text.hasPrefix("SigBlk:\t"), let blocked = UInt64(text.dropFirst(8).dropLast(), radix: 16) else { continue }
      found.append(ThreadSignals(id: id, blocked: blocked))
    }
  }
  return found
}
