package import PushCore
package import PushCredentials

/// APNs, as a lane sees it: pools of connections, one for each (credential, environment).
package protocol PushService {
  /// Which pool serves the job. Throws where none does, with what to say to the producer.
  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex

  /// Once at the start of every turn: deadlines, pings, growth, back-off, probes.
  mutating func maintain(now: Now)

  /// How many requests the pool would take now, as far as can be said without trying.
  func room(for pool: PoolIndex) -> Int

  /// Hands one request to a pool, or says why not.
  /// - Parameter jobClass: the queue that it came from; what is wrong with one class's device tokens holds up no other.
  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    now: Now
  ) -> SendDecision

  /// A send that was held and can be tried again; nil: none.
  mutating func nextReleased() -> Ticket?

  /// false: what waits for the pool waits for a provider token, and not for room.
  func hasToken(for pool: PoolIndex) -> Bool

  /// The next answer of this turn; nil once everything is reported.
  mutating func nextAnswer(now: Now) -> PushAnswer?

  /// Acts on a verdict about the connection or its credential (renew the token, pause, close), beside the job's own fate.
  mutating func apply(_ verdict: Verdict, pool: PoolIndex, now: Now)

  /// Says goodbye on idle connections, and opens no more.
  mutating func close()
}

extension PushService {
  /// Of a service without provider tokens.
  package func hasToken(for pool: PoolIndex) -> Bool { true }

  /// Of a service that holds nothing.
  package mutating func nextReleased() -> Ticket? { nil }
}
