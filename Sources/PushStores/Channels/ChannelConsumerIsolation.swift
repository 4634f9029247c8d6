import PushCore
import PushIO

/// Requests that deliveries did not finish: what may end workers is carried out alone, and given up in the end.
extension ChannelConsumerLoop {
  /// So long what was acknowledged has to reach the broker.
  private static let alonePauseMilliseconds: Int64 = 100

  static func judge(
    _ delivery: AMQPDelivery, _ metadata: inout MessageMetadata
  ) -> ChannelIsolation.Decision {
    let isolation = ChannelIsolation(
      delivery.channel == isolatedChannel ? .isolated : .shared, deliveryCount: metadata.deliveryCount,
      carriedCount: metadata.carriedDeliveries)
    metadata.carriedDeliveries = isolation.carriedCount
    // Of an oversized one there are no bytes for a copy: the broker takes it from here.
    return delivery.isOversized ? .process : isolation.decision
  }

  /// Carries it out once all copies and answers that were on their way when it came are confirmed, and acknowledged. It may be a copy that
  /// this worker just made: a worker that it ends before would leave the original, of which the next one makes another copy.
  func recallAlone(_ request: ChannelConsumerRequest) {
    recall(request, behind: requests.filter { !$0.publishes.isEmpty })
  }

  private func recall(_ request: ChannelConsumerRequest, behind others: [ChannelConsumerRequest]) {
    loop.schedule(afterMilliseconds: ChannelConsumerLoop.alonePauseMilliseconds) { [weak self] in
      guard let self, requests.contains(where: { $0 === request }) else { return }
      guard !others.isEmpty else { return recall(request) }
      recall(request, behind: others.filter { other in requests.contains { $0 === other } })
    }
  }

  /// It may be what ends workers. Its other copies, which workers that ended left, are answered the same.
  func giveUp(_ request: ChannelConsumerRequest, _ job: ChannelJob) {
    let count = request.metadata.carriedDeliveries
    let detail = "given up: \(count) deliveries were not finished, with no other isolated request beside it"
    var reply = ChannelReply(to: job)
    reply.failure = ChannelReply.Failure(.unavailable, detail: detail)
    let key = ChannelKeys(prefix: settings.prefix, scope: job.scope).givenUp(job.id)
    remember(reply, of: job, key) { [weak self] in self?.fail(request, reply, detail) }
  }
}
