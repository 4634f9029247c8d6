package import PushCore
package import PushCredentials

/// APNs, as a lane sees it: pools of connections, one for each (credential, environment).
package protocol PushService {
  /// The pool for the job. Throws if there is none, with a message for the producer.
  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex

  /// Once at the start of every turn: deadlines, pings, growth, back-off, probes.
  mutating func maintain(now: Now)

  /// About how many requests the pool would take now.
  func room(for pool: PoolIndex) -> Int

  /// Passes one request to a pool, or says why not.
  /// - Parameters:
  ///   - jobClass: the queue that it came from; bad device tokens in one class do not delay the other.
  ///   - transactionalInFlight: of a bulk request beside transactional ones, how many of those are in flight: it leaves room for others. nil:
  ///     it may take the last room.
  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision

  /// A held send that can be tried again; nil: none.
  mutating func nextReleased() -> Ticket?

  /// false: jobs wait for a provider token instead of for room.
  func hasToken(for pool: PoolIndex) -> Bool

  /// The next answer of this turn; nil once everything is reported.
  mutating func nextAnswer(now: Now) -> PushAnswer?

  /// Acts on a verdict about the connection or its credential (renew the token, pause, close), apart from the job's fate.
  /// - Parameter topic: of the job; empty where the verdict pauses nothing.
  mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now)

  /// Closes idle connections, and opens no more.
  mutating func close()
}

extension PushService {
  /// For a service without provider tokens.
  package func hasToken(for pool: PoolIndex) -> Bool { true }

  /// For a service that holds nothing.
  package mutating func nextReleased() -> Ticket? { nil }
}
