package import PushCore

/// Why the registry of activities did not do what it was asked for.
package enum ActivityRegistryFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// The activity does not take the job.
  case refused(ActivityID, ActivityRefusal)
  /// The job's payload cannot become the activity's.
  case invalid(JobError)
  /// Others changed the activity whenever it was about to be stored. Try again.
  case contended(ActivityID)
  /// Redis cannot be asked, or holds something else. Try again.
  case redis(String)

  package var description: String {
    switch self {
    case .refused(let id, let refusal): "the activity \(id) \(refusal.text)"
    case .invalid(let error): error.detail
    case .contended(let id): "the activity \(id) was changed by others each time it was to be stored"
    case .redis(let text): "redis: \(text)"
    }
  }
}
