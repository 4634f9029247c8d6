import APNsSimulator

/// Publishes the messages of devices, users and producers.
extension WorkerWorld {
  func publishAudience(_ number: Int) {
    guard let event = plan.audiences[number], !isOnChannel(event) else { return }
    var properties = RabbitProperties()
    let now = WorkerWorld.unixMillisecondsAtZero + network.now / 1_000_000
    var (exchange, routingKey) = ("", "push.registrations")
    if case .job(let job) = event.kind {
      (exchange, routingKey) = ("push.jobs", job.routingKey)
      properties.timestamp = UInt64(now / 1000)
      properties.messageID = Array(job.id.utf8)
    }
    let count = rabbitmq.publish(
      exchange: exchange, routingKey: routingKey, properties: properties, body: Array(event.body.utf8),
      now: network.now)
    network.act(rabbitmq)
    guard count > 0 else {
      // No worker has declared the queues yet, or the broker is down.
      return schedule(.audience(number), at: network.now + 500_000_000)
    }
    note("published \(event.body)")
    audiences.published(event, unixMilliseconds: now)
  }

  /// An activity whose updates come on a channel has no update token that its app could register.
  private func isOnChannel(_ event: SimulatedAudienceEvent) -> Bool {
    guard settings.channelAbove != nil, case .token(let device, let activity, let token) = event.kind, !token.isEmpty
    else { return false }
    return audiences.subscribers(apns.ledger)[AudienceAuditor.Member(device: device, activity: activity)] != nil
  }

  /// Stores the segment, like an operator.
  func putSegment() {
    let key = "push:{devices:production:\(SimulatedAudienceEvent.app)}:segments"
    for node in redis where cluster?.redirect([Array(key.utf8)], isAsking: false, from: node) == nil && node.isPrimary {
      node.set(
        Array(key.utf8), field: Array(SimulatedAudienceJob.segment.utf8),
        Array(SimulatedAudienceJob.segmentEntry.utf8), now: network.now)
    }
  }
}
