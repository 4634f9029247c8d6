/// What to do for a request, and its answer.
///
/// Carry it out in this order: check that `namedSegments` exist, store `segments` in Redis, publish `publications`, send `answer`. A client
/// without an answer may repeat the request: a start reaches no device twice, and an update shows the same state again.
package struct LiveActivitiesPlan: Hashable, Sendable {
  /// A message for RabbitMQ.
  package enum Publication: Hashable, Sendable {
    /// For the jobs exchange. The id is the job's own, for `message_id`.
    case job(id: String, JobClass, [UInt8])
    /// For the queue of registrations.
    case registration([UInt8])
  }

  /// A filter in the request. Jobs refer to it by a code that is derived from the filter.
  package struct Segment: Hashable, Sendable {
    package var code: SegmentCode
    package var filter: SegmentFilter
  }

  /// The app and environment of everything below.
  package internal(set) var scope: AppScope
  /// Filters to store, each once.
  package internal(set) var segments: [Segment] = []
  /// Segments that the request names, each once. If one does not exist, answer `unknownSegment` and do nothing.
  package internal(set) var namedSegments: [SegmentCode] = []
  package internal(set) var publications: [Publication] = []
  /// Ids or tokens of target devices, each once. The answer lists those that the registry does not know.
  package internal(set) var devices: [String] = []
  /// Target users, each once. The answer lists those that the registry does not know.
  package internal(set) var users: [String] = []
  /// Fields of the request that have no effect.
  package internal(set) var ignored: [LiveActivitiesField] = []
  /// The `MessageCode` of each notification, in order; nil: a device's call.
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
