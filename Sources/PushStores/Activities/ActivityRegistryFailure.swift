package import PushCore

/// Why an operation of the activity registry failed.
package enum ActivityRegistryFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// The activity refuses the job.
  case refused(ActivityID, ActivityRefusal)
  /// The job's payload cannot be edited for the activity.
  case invalid(JobError)
  /// Conflicting changes each time before it could be stored. Try again.
  case contended(ActivityID)
  /// Redis did not answer, or refused. Try again.
  case redis(String)
  /// Redis holds what something else wrote, or another version.
  case unreadable(String)

  init(_ failure: RedisClient.Failure) {
    self = failure.isForeignData ? .unreadable(failure.text) : .redis(failure.text)
  }

  package var description: String {
    switch self {
    case .refused(let id, let refusal): "the activity \(id) \(refusal.text)"
    case .invalid(let error): error.detail
    case .contended(let id): "the activity \(id) changed again each time before it could be stored"
    case .redis(let text): "redis: \(text)"
    case .unreadable(let text): text
    }
  }
}

extension DeviceRegistryFailure {
  init(_ failure: ActivityRegistryFailure) {
    switch failure {
    case .unreadable(let text): self = .unreadable(text)
    case .refused, .invalid, .contended, .redis: self = .redis("\(failure)")
    }
  }
}
