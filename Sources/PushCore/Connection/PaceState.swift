/// How fast a pool answers jobs of one class, while more of them wait than it takes.
///
/// Only then its answers tell what it can do; a pool with little to do answers little. Counting begins with the first answer: before it the
/// pool may be connecting, and one that never answers is stuck (`ShareState`). Time is counted in looks, as there.
package struct PaceState: Sendable {
  /// Looks at which jobs waited, until its pace is known: windows grow with answers, and the first seconds tell little.
  private static let knownLooks = 10
  private static let fullLooksMaximum = 20
  /// Older answers count for less and less.
  private static let looksMaximum = 16

  /// Looks at which jobs waited; each other one takes two of them away.
  private var fullLooks = 0
  private var looks = 0
  private var answers = 0
  private var newAnswers = 0

  package init() {}

  package mutating func answered() { newAnswers += 1 }

  /// The time of a look came.
  /// - Parameter isFull: sends wait, and the pool has no room for them.
  package mutating func looked(isFull: Bool) {
    let new = newAnswers
    newAnswers = 0
    fullLooks = isFull ? min(fullLooks + 1, PaceState.fullLooksMaximum) : max(0, fullLooks - 2)
    guard fullLooks > 0, looks > 0 || new > 0 else {
      (fullLooks, looks, answers) = (0, 0, 0)
      return
    }
    looks += 1
    answers += new
    guard looks == PaceState.looksMaximum else { return }
    looks /= 2
    answers /= 2
  }

  /// How many it answers in so many looks; nil: not known, because it takes all that comes.
  package func answers(in count: Int) -> Int? {
    fullLooks < PaceState.knownLooks ? nil : answers * count / looks
  }
}
