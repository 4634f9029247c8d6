import PushStores

/// What a worker's consumer of undelivered messages says of itself, in the Prometheus text format.
enum UndeliveredMetrics {
  private static let reasons = ["delivery_limit", "expired", "maxlen", "other", "rejected", "unroutable"]

  static func text(_ counters: UndeliveredCounters) -> String {
    var out = PrometheusText()
    out.family(
      "herald_undelivered_total", .counter,
      "Messages that RabbitMQ gave up, by its reason; unroutable: no queue took them. Their outcomes say what became of them."
    )
    // Counters start at zero.
    for reason in reasons { out.sample(["reason": reason], counters.taken[reason] ?? 0) }
    out.family("herald_undelivered_in_flight", .gauge, "Those of them that wait for a confirm.")
    out.sample([:], counters.inFlight)
    out.family("herald_undelivered_connected", .gauge, "1 while their queue is consumed.")
    out.sample([:], counters.isConnected)
    return out.text
  }
}
