/// The times that decide how long a job may be tried.
package struct JobTimes: Sendable {
  /// When it was enqueued, or first received, Unix milliseconds.
  package var enqueuedAt: Int64
  /// Unix seconds; nil or 0 if the producer set no end.
  package var expiration: Int64?

  package init(enqueuedAt: Int64, expiration: Int64?) {
    self.enqueuedAt = enqueuedAt
    self.expiration = expiration
  }
}
