/// What the loop serves beside descriptors: something with bytes to write, news to tell, or reading to resume. A transport is one.
protocol LoopMember: AnyObject {
  /// Tells what waited for this turn.
  func runDeferred()

  /// Writes what there is, with one system call.
  func flushOutbound()

  /// true: it reads again, and is paused no more.
  func resumeReadingIfRoom() -> Bool

  /// The loop is going away: close everything and tell nobody.
  func loopEnded()
}
