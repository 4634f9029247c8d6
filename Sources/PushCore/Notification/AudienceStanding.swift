/// Whether the pages of a job for an audience may be sent.
package enum AudienceStanding: Hashable, Sendable {
  /// Also if nothing is known about the job.
  case running
  /// Its pages wait until an operator resumes it.
  case paused
  /// Nothing more is sent.
  case cancelled
}
