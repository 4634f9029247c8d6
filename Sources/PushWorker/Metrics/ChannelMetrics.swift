import PushCore
import PushStores

/// The metrics of a worker's channel consumer, in the Prometheus text format.
enum ChannelMetrics {
  static func text(_ counters: ChannelCounters) -> String {
    var out = PrometheusText()
    out.family("herald_channels", .gauge, "Broadcast channels at APNs, as counted last by this worker.")
    let counts = counters.counts.map { (labels: [$0.key.environment.name, $0.key.app], count: $0.value) }
    for (labels, count) in counts.sorted(by: { $0.labels.lexicographicallyPrecedes($1.labels) }) {
      out.sample(["environment": labels[0], "app": labels[1]], count)
    }
    out.family("herald_channels_limit", .gauge, "How many channels an app may have in an environment.")
    out.sample([:], ChannelLimit.apple)
    out.family("herald_channels_created_total", .counter, "Channels made.")
    out.sample([:], counters.created)
    out.family("herald_channels_adopted_total", .counter, "Channels found that an unanswered create made.")
    out.sample([:], counters.adopted)
    out.family("herald_channels_undecided_total", .counter, "Unanswered creates whose channel could not be found.")
    out.sample([:], counters.undecided)
    out.family("herald_channels_discarded_total", .counter, "Channels created needlessly, and deleted again.")
    out.sample([:], counters.discarded)
    out.family("herald_channels_deleted_total", .counter, "Channels deleted.")
    out.sample([:], counters.deleted)
    out.family("herald_channels_policies_told_total", .counter, "Storage policies found out for lanes.")
    out.sample([:], counters.policiesResolved)
    out.family("herald_channels_requests_total", .counter, "Requests of the queue that were answered.")
    for (key, count) in counters.requests.sorted(by: {
      ($0.key.action, $0.key.result) < ($1.key.action, $1.key.result)
    }) {
      out.sample(["action": key.action, "result": key.result], count)
    }
    out.family(
      "herald_channels_requests_postponed_total", .counter, "Requests of the queue that went to a retry queue.")
    out.sample([:], counters.postponed)
    out.family(
      "herald_channels_requests_isolated_total", .counter,
      "Requests isolated because three deliveries did not finish them.")
    out.sample([:], counters.isolated)
    out.family("herald_channels_requests_in_flight", .gauge, "Requests of the queue that are being carried out.")
    out.sample([:], counters.inFlight)
    out.family("herald_channels_connected", .gauge, "1 while the request queue is consumed and Redis is connected.")
    out.sample([:], counters.isConnected)
    return out.text
  }
}
