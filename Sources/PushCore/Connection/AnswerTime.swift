/// How long a pool's answers take of late: their mean and how far they stray from it, as TCP measures its round trips
/// (RFC 6298). One late answer widens it at once, a row of usual ones narrows it again.
package struct AnswerTime: Sendable {
  private var mean: Int64 = 0
  private var deviation: Int64 = 0

  package init() {}

  /// An answer took so long.
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

  /// What takes longer is out of the ordinary; 0 before the first answer.
  package var longestUsualNanoseconds: Int64 { mean + 4 * deviation }
}
