import PushCore
import PushIO

/// Requests that several deliveries did not finish. They may crash workers, so they are carried out alone, and finally
/// given up.
extension ChannelConsumerLoop {
  /// Time for acknowledgements to reach the broker.
  private static let acknowledgementPauseMilliseconds: Int64 = 100

  static func judge(
    _ delivery: AMQPDelivery, _ metadata: inout MessageMetadata
  ) -> ChannelIsolation.Decision {
    let isolation = ChannelIsolation(
      delivery.channel == isolatedChannel ? .isolated : .shared, deliveryCount: metadata.deliveryCount,
      carriedCount: metadata.carriedDeliveries)
    metadata.carriedDeliveries = isolation.carriedCount
    // The body of an oversized request is not there to copy: the broker dead-letters it.
    return delivery.isOversized ? .process : isolation.decision
  }

  /// Carries it out after all copies and answers that were in progress when it came are confirmed and acknowledged. It
  /// may be a copy that this worker just made: if it crashed the worker earlier, the original would remain, and the
  /// next worker would copy it again.
  func recallIsolated(_ request: ChannelConsumerRequest) {
    recall(request, behind: requests.filter(\.isEnding))
  }

  private func recall(_ request: ChannelConsumerRequest, behind others: [ChannelConsumerRequest]) {
    loop.schedule(afterMilliseconds: ChannelConsumerLoop.acknowledgementPauseMilliseconds) { [weak self] in
      guard let self, requests.contains(where: { $0 === request }) else { return }
      guard !others.isEmpty else { return recall(request) }
      recall(request, behind: others.filter { other in requests.contains { $0 === other } })
    }
  }

  /// Carries out an isolated copy, if few tries of the request were not finished. Its copies count together: workers that crash leave
  /// several, each of which would be tried as often as one.
  func tryAlone(_ request: ChannelConsumerRequest, _ job: ChannelJob) {
    let key = ChannelKeys(prefix: settings.prefix, scope: job.scope).tries(job.id)
    // Its life is set first: a connection that is lost between the two would leave a count for ever.
    redis.call(["SET", key, "0", "EX", String(settings.answerSeconds), "NX"], key: key) { _ in }
    redis.call(["INCR", key], key: key) { [weak self] result in
      guard let self else { return }
      if case .success(.integer(let tries)) = result, tries > ChannelIsolation.triesMaximum {
        giveUp(request, job, after: tries - 1)
      } else {
        run(request, job)
      }
    }
  }

  /// It crashed nobody.
  func triedAlone(_ job: ChannelJob) {
    let key = ChannelKeys(prefix: settings.prefix, scope: job.scope).tries(job.id)
    redis.call(["DEL", key], key: key) { _ in }
  }

  /// It may crash workers. Other copies of it, left by crashed workers, get the same answer.
  func giveUp(_ request: ChannelConsumerRequest, _ job: ChannelJob, after count: Int64) {
    let detail = "given up: \(count) deliveries were not finished, with no other isolated request in progress"
    var reply = ChannelReply(to: job)
    reply.failure = ChannelReply.Failure(.unavailable, detail: detail)
    let key = ChannelKeys(prefix: settings.prefix, scope: job.scope).givenUp(job.id)
    remember(reply, of: job, key) { [weak self] in self?.fail(request, reply, detail) }
  }
}
