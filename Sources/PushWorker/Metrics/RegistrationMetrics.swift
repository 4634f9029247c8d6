import PushCore
import PushStores

/// What a worker's registration consumer says of itself, in the Prometheus text format.
enum RegistrationMetrics {
  static func text(_ counters: RegistrationCounters) -> String {
    var out = PrometheusText()
    out.family(
      "herald_registrations_total", .counter,
      "Registrations taken from the queue, by kind and what became of them; invalid, failed and redelivered are dead letters."
    )
    // Counters start at zero.
    var results = counters.results
    for kind in Registration.Kind.allCases {
      let key = RegistrationCounters.Key(kind: kind.rawValue, result: RegistrationAnswer.changed.word)
      results[key] = results[key] ?? 0
    }
    for (key, count) in results.sorted(by: { ($0.key.kind, $0.key.result) < ($1.key.kind, $1.key.result) }) {
      out.sample(["kind": key.kind, "result": key.result], count)
    }
    out.family("herald_registrations_in_flight", .gauge, "Registrations taken from the queue and not acknowledged.")
    out.sample([:], counters.inFlight)
    out.family("herald_registrations_waiting", .gauge, "Those of them that Redis does not take at present.")
    out.sample([:], counters.waiting)
    out.family(
      "herald_registrations_put_off_total", .counter, "Registrations put into a retry queue: their app had its share.")
    out.sample([:], counters.putOff)
    out.family(
      "herald_registrations_conflicts_total", .counter, "Changes decided again because another worker was faster.")
    out.sample([:], counters.conflicts)
    out.family(
      "herald_activities_late_pushes_total", .counter,
      "Pushes published because an update token came after an update or the end of its activity.")
    out.sample([:], counters.latePushes)
    out.family(
      "herald_registrations_connected", .gauge, "1 while the queue of registrations is consumed and Redis is connected."
    )
    out.sample([:], counters.isConnected)
    return out.text
  }
}
