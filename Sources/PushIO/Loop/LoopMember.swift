/// An object that the loop serves besides descriptors: it has bytes to write, events to report, or reading to resume. A transport is one.
protocol LoopMember: AnyObject {
  /// Reports what was deferred to this turn.
  func runDeferred()

  /// Writes what is queued, with one system call.
  func flushOutbound()

  /// true: it reads again, and is no longer paused.
  func resumeReadingIfRoom() -> Bool

  /// The loop is being freed: close everything, and call no delegate.
  func loopEnded()
}
