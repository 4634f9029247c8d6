import PushCore

/// Starts of activities with a fallback: each step's devices are those that can be started, and those that get the alert. Which is which
/// is fixed with the step's pages, so that a repeated step makes the same ones.
extension ExpansionRunner {
  /// The attributes type of a start with a fallback; nil: the job is none.
  static func fallbackType(_ job: borrowing PushJob) throws(JobError) -> String? {
    guard !job.fallback.title.isEmpty else { return nil }
    return try ActivityPayload(Array(job.bytes[job.payload.range])).attributesType
  }

  func split(
    _ delivery: ExpansionDelivery, _ step: Step, _ ordinals: [UInt32], type: String, next: UInt32?, given: UInt32
  ) {
    reader.split(ordinals, toStart: type, in: step.scope) { [self] part in
      guard !delivery.isGone else { return }
      switch part {
      case .failure(let failure):
        waitForRedis(delivery, "\(failure)")
        end(step.id)
      case .success(let (able, others)):
        fix(delivery, step, able, alerted: others, next: next, given: given)
      }
    }
  }
}
