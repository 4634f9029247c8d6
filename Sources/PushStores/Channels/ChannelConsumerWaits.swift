import PushCore
import PushIO
import PushLane

/// Requests that wait: what each credential and environment may take of those in progress, and what comes back later.
extension ChannelConsumerLoop {
  /// Begins the request, or lets it wait until its pool has room.
  func enter(_ request: ChannelConsumerRequest) {
    // Where no credential serves its app, it is refused at once.
    guard let job = request.job, let pool = access.pool(of: job) else { return recall(request) }
    guard access.shares.enter(request, of: pool, now: loop.now.monotonic) else {
      request.isWaiting = true
      return
    }
    begin(request, pool)
  }

  private func begin(_ request: ChannelConsumerRequest, _ pool: ChannelPoolID) {
    request.isWaiting = false
    request.pool = pool
    recall(request)
  }

  /// Its share is free.
  func leave(_ request: ChannelConsumerRequest) {
    if let pool = request.pool.take() { access.shares.leave(pool) }
  }

  /// Begins what has room by now, and puts off what exceeds a pool's share. Call in each turn.
  func shareOut() {
    access.shares.looked(now: loop.now.monotonic)
    // What is left of a request is to publish its answer or copy.
    for request in requests where request.isEnding { leave(request) }
    while !isDraining, let (request, pool) = access.shares.next() { begin(request, pool) }
    for (request, slowMilliseconds) in access.shares.takeExcess(now: loop.now.monotonic) {
      request.isWaiting = false
      guard let wait = waitMilliseconds(request) else {
        fail(request, because: "its app's channel management has not answered others for \(slowMilliseconds / 1_000) s")
        continue
      }
      let seconds = FairShareLimits.delaySeconds(
        slowMilliseconds: min(slowMilliseconds, wait), of: Topology.channelDelaysSeconds, random: random.next())
      postpone(request, wantedMilliseconds: Int64(seconds) * 1_000)
    }
  }

  /// Retries later: a copy waits in a retry queue for about as long as the request is old, but not much beyond the
  /// request's maximum age.
  func again(_ request: ChannelConsumerRequest, _ failure: ChannelRegistryFailure) {
    if case .apns(let failure) = failure, failure.isAmbiguous { request.isRepeated = true }
    guard let wait = waitMilliseconds(request) else { return fail(request, because: failure.description) }
    postpone(request, wantedMilliseconds: wait)
  }

  /// nil: it has reached its maximum age.
  private func waitMilliseconds(_ request: ChannelConsumerRequest) -> Int64? {
    let age = max(0, loop.now.unixMilliseconds - request.firstSeen)
    return age < settings.ageMaximumMilliseconds ? min(age, settings.ageMaximumMilliseconds - age) : nil
  }

  private func fail(_ request: ChannelConsumerRequest, because detail: String) {
    guard let job = request.job else { preconditionFailure("only a sound request is carried out") }
    var reply = ChannelReply(to: job)
    reply.failure = ChannelReply.Failure(.unavailable, detail: detail)
    fail(request, reply, detail)
  }

  func postpone(_ request: ChannelConsumerRequest, wantedMilliseconds: Int64) {
    let delays = Topology.channelDelaysSeconds
    registry.counters.postponed += 1
    request.postpone(seconds: delays.last { Int64($0) * 1000 <= wantedMilliseconds } ?? delays[0])
  }
}

extension Result where Failure == ChannelRegistryFailure {
  var isTemporaryFailure: Bool {
    if case .failure(let failure) = self { failure.isTemporary } else { false }
  }
}
