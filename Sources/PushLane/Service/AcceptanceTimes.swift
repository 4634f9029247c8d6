import PushCore
import Synchronization

/// When lanes of this process last had pushes accepted, by (credential, environment) and topic and class. The broker deals out jobs in
/// turn, so one lane may get only bad device tokens: it must not take a mixed campaign for a wrong environment.
package final class AcceptanceTimes: Sendable {
  private struct Key: Hashable {
    var scope: Int
    var bits: UInt64
  }

  private static let keysMaximum = 4096
  private let last = Mutex<[Key: Instant]>([:])

  package init() {}

  func note(_ key: PauseKey, scope: Int, now: Instant) {
    last.withLock { last in
      // A superfluous pause is better than unbounded memory; the next second's acceptances are recorded again.
      if last.count >= AcceptanceTimes.keysMaximum { last.removeAll(keepingCapacity: true) }
      last[Key(scope: scope, bits: key.bits)] = now
    }
  }

  func last(_ key: PauseKey, scope: Int) -> Instant? {
    last.withLock { $0[Key(scope: scope, bits: key.bits)] }
  }
}

/// A lane's part of it: each key is recorded at most once in a tenth of a second, so that lanes seldom wait for each other.
struct AcceptanceNotes {
  private struct Noted {
    var scope = -1
    var bits: UInt64 = 0
    var at = Instant(nanoseconds: 0)
  }

  private let times: AcceptanceTimes
  private var noted = Array(repeating: Noted(), count: 64)
  private static let intervalMilliseconds: Int64 = 100

  init(times: AcceptanceTimes) {
    self.times = times
  }

  mutating func accepted(_ key: PauseKey, scope: Int, now: Instant) {
    let place = Int(truncatingIfNeeded: (key.bits ^ key.bits >> 32) &+ UInt64(truncatingIfNeeded: scope)) & 63
    let before = noted[place]
    guard
      before.scope != scope || before.bits != key.bits
        || now.milliseconds(since: before.at) >= AcceptanceNotes.intervalMilliseconds
    else { return }
    noted[place] = Noted(scope: scope, bits: key.bits, at: now)
    times.note(key, scope: scope, now: now)
  }

  /// When any lane last had one accepted.
  func last(_ key: PauseKey, scope: Int) -> Instant? { times.last(key, scope: scope) }
}
