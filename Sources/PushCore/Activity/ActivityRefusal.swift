/// Why an activity refuses a job: the job is invalid, and a retry makes no sense.
package enum ActivityRefusal: Error, Hashable, Sendable, CaseIterable {
  /// No start or update token of it came, or it ended so long ago that it was forgotten.
  case unknown
  case ended
  case expired
  /// A start of a running id with a different payload.
  case otherPayload

  /// For people: what is wrong with the activity, and what to do.
  package var text: String {
    let hours = ActivityState.memoryMilliseconds / 3_600_000
    return switch self {
    case .unknown:
      """
      is not known: no start and no update token of it came in the \(hours) hours before this job, or only for another app or \
      environment; publish an update once its start has its outcome, and under a new job id
      """
    case .ended: "has ended; start another under a new id"
    case .expired:
      "has expired \(ActivityState.lifeMilliseconds / 3_600_000) hours after its start; start another under a new id"
    case .otherPayload:
      """
      was started with another payload; to add devices, repeat its payload byte for byte (but for timestamp); to change \
      what it shows, send an update
      """
    }
  }
}
