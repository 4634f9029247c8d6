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
      exchange: exchange, routingKey: routingKey, properties: properties, body: Twins.written(event.body),
      now: network.now)
    network.act(rabbitmq)
    guard count > 0 else {
      // No worker has declared the queues yet, or the broker is down.
      return schedule(.audience(number), at: network.now + 500_000_000)
    }
    note("published \(event.body)")
    auditor(of: event)?.published(event, unixMilliseconds: now)
  }

  /// An activity whose updates come on a channel has no update token that its app could register.
  private func isOnChannel(_ event: SimulatedAudienceEvent) -> Bool {
    guard settings.channelAbove != nil, case .token(let device, let activity, let token) = event.kind, !token.isEmpty
    else { return false }
    let member = AudienceAuditor.Member(device: device, activity: activity)
    return auditor(of: event)?.subscribers(apns.ledger)[member] != nil
  }

  func auditor(of event: SimulatedAudienceEvent) -> AudienceAuditor? {
    event.app == .first ? audiences : otherAudiences
  }

  /// Stores the segment of each app, like an operator.
  func putSegments() {
    for app in settings.hasSecondApp ? [SimulatedApp.first, .second] : [.first] {
      let key = Array("push:{devices:production:\(app.id)}:segments".utf8)
      for node in redis where cluster?.redirect([key], isAsking: false, from: node) == nil && node.isPrimary {
        node.set(
          key, field: Array(SimulatedAudienceJob.segment.utf8),
          Twins.written(SimulatedAudienceJob.segmentEntry(settings.hasTwins)), now: network.now)
      }
    }
  }
}
