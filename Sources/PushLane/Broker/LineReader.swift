package import Foundation

/// Reads lines from a file handle on its own thread, so that a silent pipe does not block a lane.
///
/// At most `capacity` lines wait; then the reader waits too, and so does the pipe's writer.
package final class LineReader: @unchecked Sendable {
  package enum Line: Sendable, Equatable {
    case bytes([UInt8])
    /// Longer than the limit; only its length is kept.
    case oversized(count: Int)
  }

  private let handle: FileHandle
  private let lineLimit: Int
  private let capacity: Int
  private let wake: @Sendable () -> Void
  /// Guards everything below.
  private let condition = NSCondition()
  private var lines: [Line] = []
  private var isAtEnd = false
  private var isCancelled = false

  /// - Parameter wake: called on the reader's thread when lines or the end come after there was nothing.
  package init(_ handle: FileHandle, lineLimit: Int, capacity: Int = 4096, wake: @escaping @Sendable () -> Void) {
    self.handle = handle
    self.lineLimit = lineLimit
    self.capacity = capacity
    self.wake = wake
    let thread = Thread { [self] in read() }
    thread.name = "herald-input"
    thread.start()
  }

  /// All lines since the last call, and whether the input has ended.
  package func take() -> (lines: [Line], isAtEnd: Bool) {
    condition.lock()
    defer { condition.unlock() }
    let taken = lines
    lines = []
    condition.broadcast()
    return (taken, isAtEnd)
  }

  /// Like `take`, but first waits for a line or the end.
  package func take(orWaitMilliseconds limit: Int) -> (lines: [Line], isAtEnd: Bool) {
    condition.lock()
    let end = Date.now.addingTimeInterval(Double(limit) / 1000)
    while lines.isEmpty, !isAtEnd, condition.wait(until: end) {}
    condition.unlock()
    return take()
  }

  /// Stops the reader at its next line.
  package func cancel() {
    condition.lock()
    isCancelled = true
    condition.broadcast()
    condition.unlock()
  }

  private func read() {
    var line: [UInt8] = []
    var count = 0
    while let chunk = try? handle.read(upToCount: 64 * 1024), !chunk.isEmpty {
      var rest = chunk[...]
      while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
        count += end - rest.startIndex
        if count <= lineLimit { line.append(contentsOf: rest[..<end]) }
        guard give(line, count) else { return }
        line = []
        count = 0
        rest = rest[(end + 1)...]
      }
      count += rest.count
      if count <= lineLimit { line.append(contentsOf: rest) } else { line = [] }
    }
    guard give(line, count) else { return }
    condition.lock()
    isAtEnd = true
    condition.broadcast()
    condition.unlock()
    wake()
  }

  /// Passes a line on, when there is room. Skips blank lines. false: cancelled.
  private func give(_ line: [UInt8], _ count: Int) -> Bool {
    if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) && count <= lineLimit { return true }
    condition.lock()
    while lines.count >= capacity && !isCancelled { condition.wait() }
    let isFirst = lines.isEmpty
    lines.append(count <= lineLimit ? .bytes(line) : .oversized(count: count))
    let goesOn = !isCancelled
    condition.broadcast()
    condition.unlock()
    if isFirst { wake() }
    return goesOn
  }
}
