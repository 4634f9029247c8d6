/// The bounds of `FairShares`, and how long it puts a message off.
package struct FairShareLimits: Sendable {
  /// Messages in progress.
  package var progressMaximum: Int
  /// Messages that wait, of all slow owners together.
  package var slowWaitingMaximum: Int
  /// An owner whose oldest message has waited for so long is slow.
  package var slowMilliseconds: Int64

  package init(progressMaximum: Int, slowWaitingMaximum: Int, slowMilliseconds: Int64) {
    self.progressMaximum = progressMaximum
    self.slowWaitingMaximum = slowWaitingMaximum
    self.slowMilliseconds = slowMilliseconds
  }

  /// How long a message in excess is put off: as long as its owner has been slow at most, and most of them for less, by chance. If all came
  /// back at once, most of them would find no room, and later none would be there to take it.
  /// - Parameters:
  ///   - delaysSeconds: of the retry queues, ascending.
  ///   - random: any number.
  package static func delaySeconds(slowMilliseconds: Int64, of delaysSeconds: [Int], random: UInt64) -> Int {
    let milliseconds = slowMilliseconds >> Int64(random % 8)
    return delaysSeconds.last { Int64($0) * 1_000 <= milliseconds } ?? delaysSeconds[0]
  }
}
