/// The times of a job that decide how long it may be tried.
package struct JobTimes: Sendable {
  /// When it was enqueued, or received first, Unix milliseconds.
  package var enqueuedAt: Int64
  /// Unix seconds; nil or 0 where the producer set no end.
  package var expiration: Int64?

  package init(enqueuedAt: Int64, expiration: Int64?) {
    self.enqueuedAt = enqueuedAt
    self.expiration = expiration
  }
}
