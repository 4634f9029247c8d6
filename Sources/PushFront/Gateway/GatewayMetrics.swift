import PushCore
import PushOperations
import PushWorker
import Synchronization

/// Counts requests, for `/metrics`.
final class GatewayMetrics: Sendable {
  private struct Kind: Hashable {
    var route: String
    var status: Int
  }

  private struct State {
    var requests: [Kind: UInt64] = [:]
    var durations = Histogram()
    var keysRefused: UInt64 = 0
    var ignored: [LiveActivitiesField: UInt64] = [:]
  }

  private let state = Mutex(State())
  let connections = Atomic<Int>(0)
  let connectionsRefused = Atomic<Int>(0)
  let acceptFailures = Atomic<Int>(0)

  /// Counts an answered request.
  func count(_ route: String, _ status: Int, nanoseconds: Int64) {
    state.withLock { state in
      state.requests[Kind(route: route, status: status), default: 0] += 1
      state.durations.record(nanoseconds: nanoseconds)
      if status == Problem.Kind.unauthorized.status { state.keysRefused += 1 }
    }
  }

  /// Counts a request without a valid key that was answered with another status than 401.
  func countRefusedKey() { state.withLock { $0.keysRefused += 1 } }

  /// Counts a request's ignored fields.
  func count(_ ignored: [LiveActivitiesField]) {
    state.withLock { state in for field in ignored { state.ignored[field, default: 0] += 1 } }
  }

  func text(_ status: GatewayBackend.Status) -> String {
    let state = state.withLock { $0 }
    var text = PrometheusText()
    text.family("herald_gateway_requests_total", .counter, "Requests that the gateway answered.")
    for (kind, count) in state.requests.sorted(by: { ($0.key.route, $0.key.status) < ($1.key.route, $1.key.status) }) {
      text.sample(["route": kind.route, "status": "\(kind.status)"], count)
    }
    text.family(
      "herald_gateway_request_duration_seconds", .histogram, "From a request's head to its answer, confirms included.")
    text.histogram(state.durations)
    text.family("herald_gateway_keys_refused_total", .counter, "Requests without a valid key.")
    text.sample([:], state.keysRefused)
    text.family(
      "herald_gateway_ignored_fields_total", .counter,
      "Fields without an effect, in requests of the Live Activities API that were carried out.")
    for field in LiveActivitiesField.allCases {
      text.sample(["field": field.rawValue], state.ignored[field] ?? 0)
    }
    text.family("herald_gateway_connections", .gauge, "Clients that are connected.")
    text.sample([:], connections.load(ordering: .relaxed))
    text.family("herald_gateway_connections_refused_total", .counter, "Connections over gateway.connections_max.")
    text.sample([:], connectionsRefused.load(ordering: .relaxed))
    text.family(
      "herald_gateway_accept_failures_total", .counter, "Attempts to accept a connection that failed.")
    text.sample([:], acceptFailures.load(ordering: .relaxed))
    text.family("herald_gateway_confirmed_total", .counter, "Jobs and registrations that RabbitMQ confirmed.")
    text.sample([:], status.confirmed)
    text.family("herald_gateway_unconfirmed_total", .counter, "Jobs and registrations that RabbitMQ did not confirm.")
    text.sample([:], status.unconfirmed)
    text.family("herald_gateway_open", .gauge, "Jobs and registrations that RabbitMQ has not confirmed yet.")
    text.sample([:], status.open)
    text.family(
      "herald_gateway_numbered_locally_total", .counter,
      "Jobs and registrations numbered by the gateway's clock because Redis did not answer.")
    text.sample([:], status.numberedLocally)
    text.family(
      "herald_gateway_keys_read_timestamp_seconds", .gauge,
      "When the API keys were last read; revocations since do not count.")
    if let readAt = status.keysReadAt { text.sample([:], Int(readAt)) }
    text.family("herald_gateway_outcome_readers", .gauge, "Readers of /v1/outcomes.")
    text.sample([:], status.readers)
    text.family("herald_gateway_outcome_bytes", .gauge, "Bytes of outcomes in memory that readers have not taken.")
    text.sample([:], status.outcomeBytes)
    text.family("herald_rabbitmq_connected", .gauge, "Whether RabbitMQ takes what is published.")
    text.sample(["role": "gateway"], status.isRabbitMQReady)
    text.family("herald_publish_refused", .gauge, "Whether this exchange or queue refuses what the gateway publishes.")
    for destination in status.refusing {
      text.sample(["destination": destination, "app": "", "role": "gateway"], true)
    }
    text.family("herald_redis_up", .gauge, "Whether Redis is connected.")
    text.sample([:], status.isRedisConnected)
    return text.text
  }
}
