import PushCore
package import PushCredentials
package import PushLane

/// A worker's metrics in the Prometheus text format: summed over lanes, with the public names and labels.
package enum MetricsText {
  /// - Parameters:
  ///   - reports: the last report of each lane.
  ///   - tokens: when each key's provider token was issued, Unix seconds, and how often one was made.
  ///   - certificates: when each credential's certificate expires, Unix seconds.
  ///   - revocations: whether each credential is revoked.
  ///   - refusing: what refuses the publishes of each consumer beside the lanes.
  package static func make(
    _ reports: [LaneReport], tokens: [ProviderTokens.Snapshot],
    certificates: [(credential: String, notAfter: Int64)], revocations: [(credential: String, isRevoked: Bool)] = [],
    refusing: [(role: String, destinations: [RefusedDestination])] = []
  ) -> String {
    var out = PrometheusText()
    jobs(reports, &out)
    apns(reports, &out)
    brokerAndState(reports, refusing, &out)
    movement(reports, &out)
    credentials(tokens, certificates, &out)
    out.family("herald_credential_revoked", .gauge, "1: the credential is revoked, and its jobs wait.")
    for revocation in revocations { out.sample(["credential": revocation.credential], revocation.isRevoked) }
    out.family("herald_event_loop_turn_duration_seconds", .histogram, "One turn of a lane's loop, its wait left out.")
    out.histogram(merged(reports) { $0.counters.turnDuration })
    out.family("herald_build_info", .gauge, "Always 1; its labels say what runs.")
    out.sample(["version": Herald.version], true)
    return out.text
  }

  private static func jobs(_ reports: [LaneReport], _ out: inout PrometheusText) {
    out.family("herald_jobs_received_total", .counter, "Deliveries taken from the queues.")
    for jobClass in JobClass.allCases {
      let index = Int(jobClass.rawValue)
      out.sample(["class": "\(jobClass)"], reports.reduce(0) { $0 + $1.counters.received[index] })
    }
    out.family("herald_jobs_in_flight", .gauge, "Deliveries that are not settled.")
    out.sample([:], reports.reduce(0) { $0 + $1.jobsInFlight })
    out.family("herald_jobs_handed_back_total", .counter, "Deliveries given back to their queue unfinished.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.handedBack })
    out.family(
      "herald_jobs_isolated_total", .counter, "Jobs isolated because three deliveries did not finish them.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.isolated })
    out.family("herald_audiences_total", .counter, "Jobs for audiences handed over, to become pages.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.handedOver })
    out.family(
      "herald_pages_postponed_total", .counter,
      "Pages that waited because the registry did not answer, or their lookup became old.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.pagesPostponed })
    out.family("herald_devices_skipped_total", .counter, "Devices of pages that were gone, or had no token.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.devicesSkipped })
    out.family("herald_outcomes_total", .counter, "Final outcomes, one for each target of a job.")
    var outcomes: [[String]: UInt64] = [:]
    for count in reports.flatMap(\.counters.outcomeCounts) {
      outcomes[["\(count.outcome)", "\(count.environment)", count.app, "\(count.pushType)"], default: 0] += count.count
    }
    for (labels, count) in outcomes.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      out.sample(
        ["outcome": labels[0], "environment": labels[1], "app": labels[2], "push_type": labels[3]], count)
    }
    out.family("herald_outcomes_ambiguous_total", .counter, "Of these, outcomes of what may have been sent before.")
    for outcome in Outcome.allCases {
      out.sample(
        ["outcome": "\(outcome)"], reports.reduce(0) { $0 + $1.counters.ambiguous[Int(outcome.rawValue)] })
    }
    out.family("herald_job_duration_seconds", .histogram, "Delivery to settlement.")
    out.histogram(merged(reports) { $0.counters.jobDuration })
    out.family("herald_job_age_seconds", .histogram, "Enqueue, by the message's timestamp, to outcome.")
    out.histogram(merged(reports) { $0.counters.jobAge })
    out.family("herald_retries_total", .counter, "Retry copies published, by the wait that was meant.")
    var retries: [LaneCounters.RetryKey: UInt64] = [:]
    for report in reports { retries.merge(report.counters.retries, uniquingKeysWith: +) }
    for (key, count) in retries.sorted(by: {
      ($0.key.reason, $0.key.delaySeconds ?? .max) < ($1.key.reason, $1.key.delaySeconds ?? .max)
    }) {
      out.sample(["reason": key.reason, "delay": key.delaySeconds.map { "\($0)" } ?? "other"], count)
    }
    out.family("herald_dead_letters_total", .counter, "Dead letters published.")
    var deadLetters: [String: UInt64] = ["invalid": 0, "failed": 0]
    for report in reports { deadLetters.merge(report.counters.deadLetters, uniquingKeysWith: +) }
    for (reason, count) in deadLetters.sorted(by: { $0.key < $1.key }) { out.sample(["reason": reason], count) }
    out.family("herald_rate_limited_total", .counter, "Targets over their device's rate.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.rateLimited })
    out.family("herald_suppressed_total", .counter, "Targets not sent because their token is marked dead.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.suppressed })
    out.family("herald_duplicates_suppressed_total", .counter, "Targets not sent because they were answered before.")
    out.sample([:], reports.reduce(0) { $0 + $1.counters.duplicatesSuppressed })
  }

  private static func apns(_ reports: [LaneReport], _ out: inout PrometheusText) {
    out.family("herald_apns_responses_total", .counter, "Answers of APNs.")
    var responses: [[String]: UInt64] = [:]
    for response in reports.flatMap(\.responses) {
      responses[["\(response.status)", response.reason], default: 0] += response.count
    }
    for (labels, count) in responses.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      out.sample(["status": labels[0], "reason": labels[1]], count)
    }
    out.family("herald_apns_rules_missed_total", .counter, "Refusals that our own rules should have come before.")
    out.sample([:], reports.flatMap(\.responses).reduce(0) { $0 + ($1.isOurFault ? $1.count : 0) })
    out.family("herald_apns_request_duration_seconds", .histogram, "Request handed to a connection to its answer.")
    out.histogram(merged(reports) { $0.requestDuration })
    out.family("herald_apns_connections", .gauge, "Connections to APNs.")
    var connections: [[String]: Int] = [:]
    for pool in reports.flatMap(\.pools) {
      for state in pool.connections {
        connections[[pool.credential, "\(pool.environment)", state.state], default: 0] += state.count
      }
    }
    for (labels, count) in connections.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      out.sample(["credential": labels[0], "environment": labels[1], "state": labels[2]], count)
    }
    pauses(reports, &out)
    out.family("herald_apns_streams_in_flight", .gauge, "Requests that APNs has not answered.")
    out.sample([:], reports.flatMap(\.pools).reduce(0) { $0 + $1.streamsInFlight })
    out.family("herald_apns_goaway_total", .counter, "GOAWAY frames received.")
    var goAways: [String: UInt64] = [:]
    for goAway in reports.flatMap(\.goAways) { goAways[goAway.reason, default: 0] += goAway.count }
    for (reason, count) in goAways.sorted(by: { $0.key < $1.key }) { out.sample(["reason": reason], count) }
    pools(reports, &out)
  }

  private static func pools(_ reports: [LaneReport], _ out: inout PrometheusText) {
    let pools = reports.flatMap(\.pools)
    out.family("herald_apns_stream_limit", .gauge, "Streams that APNs allows at once, on all ready connections.")
    out.sample([:], pools.reduce(0) { $0 + $1.streamLimit })
    out.family("herald_apns_send_window_bytes", .gauge, "Bytes that APNs takes now, on all ready connections.")
    out.sample([:], pools.reduce(0) { $0 + $1.sendWindow })
    out.family(
      "herald_apns_pools_stuck", .gauge, "Pools with jobs and no good answer for 1.5 s: most of their jobs are put off."
    )
    out.sample([:], reports.reduce(0) { $0 + $1.stuckPools })
    out.family("herald_apns_stalled", .gauge, "Pools whose requests wait, by cause.")
    var stalled: [[String]: Int] = [:]
    for pool in pools {
      for cause in APNsStallCause.allCases {
        let key = [pool.credential, "\(pool.environment)", cause.rawValue]
        stalled[key, default: 0] += pool.stallCause == cause ? 1 : 0
      }
    }
    for (labels, count) in stalled.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      out.sample(["credential": labels[0], "environment": labels[1], "cause": labels[2]], count)
    }
    out.family("herald_apns_connections_ended_total", .counter, "Connections to APNs that ended, by reason.")
    var ended: [String: UInt64] = [:]
    for end in reports.flatMap(\.connectionsEnded) { ended[end.reason, default: 0] += end.count }
    for (reason, count) in ended.sorted(by: { $0.key < $1.key }) { out.sample(["reason": reason], count) }
    out.family(
      "herald_apns_connections_failed_total", .counter, "Connections that ended before they answered anything.")
    out.sample([:], reports.reduce(0) { $0 + $1.connectionsFailed })
    out.family("herald_apns_tls_failures_total", .counter, "TLS handshakes with APNs that failed.")
    out.sample([:], reports.reduce(0) { $0 + $1.tlsFailures })
    out.family("herald_apns_clock_skew_seconds", .gauge, "How far APNs' clock is ahead of ours, by its answers.")
    if let skew = reports.compactMap(\.clockSkewSeconds).max(by: { abs($0) < abs($1) }) { out.sample([:], Int(skew)) }
  }

  /// The pools of a credential in an environment share their pauses; lanes do not.
  private static func pauses(_ reports: [LaneReport], _ out: inout PrometheusText) {
    var isPaused: [[String]: Bool] = [:]
    var topics: [[String]: Int] = [:]
    for pool in reports.flatMap(\.pools) {
      let labels = [pool.credential, "\(pool.environment)"]
      isPaused[labels] = isPaused[labels, default: false] || pool.isPaused
      topics[labels] = max(topics[labels, default: 0], pool.pausedTopics)
    }
    out.family("herald_apns_paused", .gauge, "1 while a lane sends nothing with a credential but a probe now and then.")
    for (labels, value) in isPaused.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      out.sample(["credential": labels[0], "environment": labels[1]], value)
    }
    out.family(
      "herald_apns_paused_topics", .gauge,
      "Topics, classes or broadcasts of one, that a lane has paused; most of all lanes.")
    for (labels, value) in topics.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      out.sample(["credential": labels[0], "environment": labels[1]], value)
    }
    out.family(
      "herald_apns_pause_start_timestamp_seconds", .gauge, "Each pause, while it lasts, and when it began.")
    for pause in APNsPause.merged(reports.flatMap(\.activePauses)) {
      out.sample(
        [
          "credential": pause.credential, "environment": "\(pause.environment)", "topic": pause.label.topic,
          "class": pause.label.branchWord ?? "",
        ], Int(pause.since / 1_000))
    }
    out.family("herald_apns_pauses_total", .counter, "Pauses of credentials and topics that began.")
    out.sample([:], reports.reduce(0) { $0 + $1.pauses })
    out.family(
      "herald_apns_bad_device_token_warnings_total", .counter,
      "Times that many device tokens of a topic and class were refused while others were accepted.")
    out.sample([:], reports.reduce(0) { $0 + $1.badDeviceTokenWarnings })
  }

  private static func brokerAndState(
    _ reports: [LaneReport], _ refusing: [(role: String, destinations: [RefusedDestination])],
    _ out: inout PrometheusText
  ) {
    out.family("herald_rabbitmq_connected", .gauge, "Lanes whose connection of this role is open.")
    var connected: [String: Int] = [:]
    for role in reports.flatMap(\.rabbitmqConnected) { connected[role.role, default: 0] += role.isConnected ? 1 : 0 }
    for (role, count) in connected.sorted(by: { $0.key < $1.key }) { out.sample(["role": role], count) }
    out.family("herald_rabbitmq_blocked", .gauge, "1 while the broker refuses publishes because of an alarm.")
    out.sample([:], reports.contains(where: \.isBlocked))
    out.family(
      "herald_publish_refused", .gauge,
      "Lanes, consumers or gateways (role) whose messages this exchange or queue refuses.")
    for (role, destinations) in [(role: "lane", destinations: reports.flatMap(\.refusing))] + refusing {
      let counts = Dictionary(grouping: destinations) { $0 }.mapValues(\.count)
      for (destination, count) in counts.sorted(by: {
        ($0.key.name, $0.key.app ?? "") < ($1.key.name, $1.key.app ?? "")
      }) {
        out.sample(["destination": destination.name, "app": destination.app ?? "", "role": role], count)
      }
    }
    out.family("herald_outcomes_unconfirmed", .gauge, "Publishes that the broker has not confirmed.")
    out.sample([:], reports.reduce(0) { $0 + $1.unconfirmed })
    out.family("herald_redis_up", .gauge, "1 while every lane is connected to Redis.")
    let redis = reports.compactMap(\.isRedisUp)
    out.sample([:], !redis.isEmpty && redis.allSatisfy { $0 })
    out.family("herald_redis_degraded", .gauge, "1 while a lane's own memory stands in for Redis.")
    var degraded: [String: Bool] = [:]
    for feature in reports.flatMap(\.redisDegraded) {
      degraded[feature.feature] = degraded[feature.feature, default: false] || feature.isDegraded
    }
    for (feature, isDegraded) in degraded.sorted(by: { $0.key < $1.key }) {
      out.sample(["feature": feature], isDegraded)
    }
    out.family("herald_redis_decided_locally_total", .counter, "Admissions that a lane's own memory decided.")
    var decided: [String: UInt64] = [:]
    for feature in reports.flatMap(\.decidedLocally) { decided[feature.feature, default: 0] += feature.count }
    for (feature, count) in decided.sorted(by: { $0.key < $1.key }) { out.sample(["feature": feature], count) }
    out.family(
      "herald_redis_silences_total", .counter,
      "Times when Redis owed an answer and sent nothing for redis.timeout_ms, and a lane's own memory decided.")
    for report in reports { out.sample(["lane": report.lane], report.redisSilences) }
  }

  /// Whether jobs move, and the steps of those that do not.
  private static func movement(_ reports: [LaneReport], _ out: inout PrometheusText) {
    out.family("herald_oldest_in_flight_seconds", .gauge, "Age of the oldest job at each step, since its delivery.")
    for step in DeliveryStep.allCases {
      out.sample(["step": step.label], reports.map { $0.oldestSeconds[step.rawValue] }.max() ?? 0)
    }
    out.family(
      "herald_lanes_standing_still", .gauge, "Lanes that settle nothing of what they have, by their oldest job's step.")
    for step in DeliveryStep.allCases {
      out.sample(["step": step.label], reports.count { $0.standstill?.step == step })
    }
    out.family("herald_lane_restarts_total", .counter, "Lanes restarted because they stood still.")
    for step in DeliveryStep.allCases {
      out.sample(["step": step.label], reports.reduce(0) { $0 + $1.restarts[step.rawValue] })
    }
  }

  private static func credentials(
    _ tokens: [ProviderTokens.Snapshot],
    _ certificates: [(credential: String, notAfter: Int64)], _ out: inout PrometheusText
  ) {
    out.family("herald_provider_token_issued_timestamp_seconds", .gauge, "When the provider token in use was issued.")
    for token in tokens { if let issuedAt = token.issuedAt { out.sample(["key_id": token.keyID], Int(issuedAt)) } }
    out.family("herald_provider_token_refreshes_total", .counter, "Provider tokens made by this worker.")
    for token in tokens { out.sample(["key_id": token.keyID], token.refreshes) }
    out.family("herald_provider_token_adoptions_total", .counter, "Provider tokens of other workers taken into use.")
    for token in tokens { out.sample(["key_id": token.keyID], token.adoptions) }
    out.family("herald_certificate_not_after_timestamp_seconds", .gauge, "When a client certificate ends.")
    for certificate in certificates { out.sample(["credential": certificate.credential], Int(certificate.notAfter)) }
  }

  private static func merged(_ reports: [LaneReport], _ histogram: (LaneReport) -> Histogram) -> Histogram {
    var sum = Histogram()
    for report in reports { sum.merge(histogram(report)) }
    return sum
  }
}
