/// Work in turns on its own loop until it is done. A thread runs it; a simulation calls its turns one by one.
package protocol LoopWork: AnyObject {
  var loop: EventLoop { get }
  /// How long the loop may wait in the next turn without input.
  var waitMilliseconds: Int { get }
  /// Waits for work and does it. false: it is done, and this was the last turn.
  func turn() -> Bool
}

extension LoopWork {
  /// Occupies the calling thread until the work is done.
  package func run() {
    while turn() {}
  }
}
