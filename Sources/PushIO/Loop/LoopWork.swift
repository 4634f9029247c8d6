/// Work that goes on in turns on a loop of its own until it is over: what a thread does, and a simulation turn by turn.
package protocol LoopWork: AnyObject {
  var loop: EventLoop { get }
  /// How long the loop may wait in the next turn where nothing comes in.
  var waitMilliseconds: Int { get }
  /// Waits for something to do and does it. false: it is over, and this was the last turn.
  func turn() -> Bool
}

extension LoopWork {
  /// Takes the calling thread until the work is over.
  package func run() {
    while turn() {}
  }
}
