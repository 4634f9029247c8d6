/// One state of an activity: its number, from 1, and the payload's `timestamp`.
///
/// A device ignores a timestamp that is not newer than the one it shows, so two revisions that were sent never share a
/// timestamp.
package struct ActivityRevision: Hashable, Sendable {
  package let number: UInt32
  /// Unix seconds.
  package let timestamp: Int64

  /// A record with a larger number was not written by Herald.
  static let numberMaximum: UInt32 = 1 << 31

  package init(number: UInt32, timestamp: Int64) {
    self.number = number
    self.timestamp = timestamp
  }
}
