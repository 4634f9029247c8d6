import PushStores

/// What a worker's expansion consumer says of itself, in the Prometheus text format.
enum ExpansionMetrics {
  static func text(_ counters: ExpansionCounters) -> String {
    var out = PrometheusText()
    out.family("herald_expansions_steps_total", .counter, "Steps of jobs for audiences whose pages were published.")
    out.sample([:], counters.steps)
    out.family("herald_expansions_pages_total", .counter, "Pages published.")
    out.sample([:], counters.pages)
    out.family("herald_expansions_devices_total", .counter, "Devices in those pages.")
    out.sample([:], counters.devices)
    out.family("herald_expansions_settlements_total", .counter, "Messages about how the devices of a page ended.")
    out.sample([:], counters.settlements)
    out.family("herald_expansions_completed_total", .counter, "Jobs for audiences whose outcome was told.")
    out.sample([:], counters.completed)
    out.family("herald_expansions_invalid_total", .counter, "Messages that were wrong, and jobs for unknown segments.")
    out.sample([:], counters.invalid)
    out.family(
      "herald_expansions_replaced_total", .counter, "Messages that ten deliveries did not finish, replaced by a copy.")
    out.sample([:], counters.replaced)
    out.family("herald_expansions_given_up_total", .counter, "Messages that 50 deliveries did not finish.")
    out.sample([:], counters.givenUp)
    out.family("herald_expansions_waits_total", .counter, "Messages put into a retry queue, by what they wait for.")
    out.sample(["for": "pages"], counters.waitsForPages)
    out.sample(["for": "resume"], counters.waitsPaused)
    out.sample(["for": "start"], counters.waitsForStart)
    out.sample(["for": "redis"], counters.waitsForRedis)
    out.sample(["for": "share"], counters.waitsForShare)
    out.family(
      "herald_activities_without_stale_date_total", .counter,
      "Starts and updates of Live Activities without stale-date, where activities.default_stale_after_s is not set.")
    out.sample([:], counters.endlessStates)
    out.family("herald_expansions_in_flight", .gauge, "Messages of the expansion queues that are being worked on.")
    out.sample([:], counters.inFlight)
    out.family(
      "herald_expansions_connected", .gauge, "1 while the expansion queues are consumed and Redis is connected.")
    out.sample([:], counters.isConnected)
    return out.text
  }
}
