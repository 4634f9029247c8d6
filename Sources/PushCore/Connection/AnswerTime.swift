/// A pool's recent answer times: a smoothed mean and deviation, as TCP measures round trips (RFC 6298). One late answer widens the range at
/// once; several usual answers narrow it again.
package struct AnswerTime: Sendable {
  private var mean: Int64 = 0
  private var deviation: Int64 = 0

  package init() {}

  /// An answer took this long.
  package mutating func heard(nanoseconds: Int64) {
    guard mean > 0 else {
      mean = max(nanoseconds, 1)
      deviation = nanoseconds / 2
      return
    }
    let error = nanoseconds - mean
    mean = max(1, mean + error / 8)
    deviation += (abs(error) - deviation) / 4
  }

  /// Answers beyond this are unusually late; 0 before the first answer.
  package var longestUsualNanoseconds: Int64 { mean + 4 * deviation }
}
