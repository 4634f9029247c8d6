/// What a request wants done, and the answer to it.
///
/// The order: a look at `namedSegments`, `segments` into Redis, all of `publications`, then `answer`. A request whose answer is not known may be sent again: a start
/// reaches no device twice, and an update shows the same again.
package struct LiveActivitiesPlan: Hashable, Sendable {
  /// A message for RabbitMQ.
  package enum Publication: Hashable, Sendable {
    /// For the jobs exchange. The id is the job's own, for `message_id`.
    case job(id: String, JobClass, [UInt8])
    /// For the queue of registrations.
    case registration([UInt8])
  }

  /// A filter that stood in the request: a job names it by a code that is a function of the filter.
  package struct Segment: Hashable, Sendable {
    package var code: SegmentCode
    package var filter: SegmentFilter
  }

  /// Of all that is written and looked up.
  package internal(set) var scope: AppScope
  /// Each once.
  package internal(set) var segments: [Segment] = []
  /// Segments that the request names, each once. Where one is not there, `unknownSegment` is the answer, and nothing is done.
  package internal(set) var namedSegments: [SegmentCode] = []
  package internal(set) var publications: [Publication] = []
  /// Ids or tokens, each once: those that the registry does not know are told in the answer.
  package internal(set) var devices: [String] = []
  /// The same.
  package internal(set) var users: [String] = []
  /// Fields of the request that have no effect.
  package internal(set) var ignored: [LiveActivitiesField] = []
  /// Of the notifications, in order; nil: a device's call.
  var codes: [String]?

  init(scope: AppScope) {
    self.scope = scope
  }

  /// - Parameters:
  ///   - isConfirmed: Redis took all segments, and RabbitMQ all publications.
  ///   - unknown: those of `devices` and `users` that the registry does not know.
  package func answer(isConfirmed: Bool, unknown: [String] = []) -> LiveActivitiesAnswer {
    guard isConfirmed else { return .unconfirmed }
    return codes.map { .sent(codes: $0, unknown: unknown) } ?? .done
  }
}
