import PushCore

/// The table of Herald's options except credentials: the only place for their defaults and bounds.
///
/// `config/herald.yaml` documents the same table; a test compares the two.
extension ConfigurationOption {
  package static let all: [ConfigurationOption] = [
    ConfigurationOption(
      "rabbitmq.url", .text(.brokerURL), .text("amqp://guest:guest@127.0.0.1:5672/"), "The address of RabbitMQ."),
    ConfigurationOption(
      "rabbitmq.urls", .texts(.brokerURL, maximum: 16), .texts([]),
      "The nodes of a cluster, tried in turn; where there are any, they replace url."),
    ConfigurationOption(
      "rabbitmq.prefix", .text(.brokerPrefix), .text("push"), "The prefix of every exchange and queue."),
    ConfigurationOption(
      "rabbitmq.prefetch", .integer(2...65_535), .integer(2000),
      "Deliveries that a lane may hold unacknowledged, half for each class; with at most 64 MiB of bodies."),
    ConfigurationOption(
      "rabbitmq.ca_file", .text(.file), .none, "A CA certificate for amqps://, in addition to the system's."),
    ConfigurationOption(
      "rabbitmq.ca_only", .flag, .flag(false), "Trust only ca_file, not the system's CA certificates."),
    ConfigurationOption(
      "rabbitmq.management_url", .text(.managementURL), .none,
      "RabbitMQ's management API, in which herald check looks for policies that delete or refuse messages."),

    ConfigurationOption(
      "redis.url", .text(.redisURL), .text("redis://127.0.0.1:6379/0"), "The Redis that all workers share."),
    ConfigurationOption("redis.prefix", .text(.keyPrefix), .text("push:"), "The prefix of every key."),
    ConfigurationOption(
      "redis.timeout_ms", .integer(1...10_000), .integer(200),
      "If Redis owes an answer and sends nothing for so long, jobs go on without their admission."),
    ConfigurationOption(
      "redis.ca_file", .text(.file), .none, "A CA certificate for rediss://, in addition to the system's."),
    ConfigurationOption("redis.ca_only", .flag, .flag(false), "Trust only ca_file, not the system's CA certificates."),
    ConfigurationOption(
      "redis.token_key_file", .text(.file), .none,
      "A key of 64 hex digits that encrypts provider tokens in Redis, the same for all workers."),

    ConfigurationOption(
      "registry.url", .text(.redisURL), .none, "The Redis that keeps devices, where it is another one than redis.url."),

    ConfigurationOption(
      "apns.production", .text(.serviceURL), .text("https://api.push.apple.com:443"), "Devices, production."),
    ConfigurationOption(
      "apns.sandbox", .text(.serviceURL), .text("https://api.sandbox.push.apple.com:443"), "Devices, sandbox."),
    ConfigurationOption(
      "apns.broadcast_production", .text(.serviceURL), .text("https://api-broadcast.push.apple.com:443"),
      "Broadcast channels, production."),
    ConfigurationOption(
      "apns.broadcast_sandbox", .text(.serviceURL), .text("https://api-broadcast.sandbox.push.apple.com:443"),
      "Broadcast channels, sandbox."),
    ConfigurationOption(
      "apns.manage_production", .text(.serviceURL), .text("https://api-manage-broadcast.push.apple.com:2196"),
      "Channel management, production."),
    ConfigurationOption(
      "apns.manage_sandbox", .text(.serviceURL), .text("https://api-manage-broadcast.sandbox.push.apple.com:2195"),
      "Channel management, sandbox."),
    ConfigurationOption(
      "apns.ca_file", .text(.file), .none, "A CA certificate in addition to the system's, such as the simulator's."),
    ConfigurationOption("apns.ca_only", .flag, .flag(false), "Trust only ca_file, not the system's CA certificates."),
    ConfigurationOption("apns.proxy", .text(.proxyURL), .none, "An HTTP proxy that allows CONNECT."),
    ConfigurationOption(
      "apns.connections_max", .integer(1...100), .integer(8),
      "Connections of one lane for one credential and environment."),
    ConfigurationOption(
      "apns.request_timeout_ms", .integer(100...120_000), .integer(10_000),
      "A request without an answer is cancelled, and tried again later."),

    ConfigurationOption(
      "limits.per_device_burst", .integer(0...1000), .integer(10),
      "Pushes that one device may get at once; 0 = no limit at all.", isReloadable: true),
    ConfigurationOption(
      "limits.per_device_per_second", .number(0.001...1000), .number(1.0),
      "Pushes that one device may get in the long run.", isReloadable: true),
    ConfigurationOption(
      "limits.overrides", .texts(.rateLimit, maximum: RateLimits.overridesMaximum), .texts([]),
      "Other limits for an app, a push type or both; the first that fits a job holds.", isReloadable: true),
    ConfigurationOption(
      "limits.on_limit", .choice(["delay", "drop"]), .text("delay"),
      "A job over its device's rate comes back later, or ends as throttled.", isReloadable: true),

    ConfigurationOption(
      "retry.delays_s", .integers(1...86_400, maximum: 16), .integers([1, 5, 30, 120, 600]),
      "A retry queue for each: the first retry waits in the first one, and so on."),
    ConfigurationOption(
      "retry.attempts_max", .integer(1...100), .integer(6),
      "Requests to APNs for one job and target, the first included."
    ),
    ConfigurationOption(
      "retry.age_max_s", .integer(1...2_592_000), .integer(3600), "A job that is older than this ends as expired."),

    ConfigurationOption("results.log", .flag, .flag(true), "Keep every outcome in a stream as well."),
    ConfigurationOption("results.log_max_age", .text(.age), .text("7D"), "How long the stream keeps an outcome."),
    ConfigurationOption(
      "results.log_max_bytes", .integer(1_000_000...1_000_000_000_000_000), .integer(10_737_418_240),
      "How large the stream may become."),

    ConfigurationOption(
      "activities.id_attribute", .text(.attributePath), .none,
      "Where the attributes of an activity that Herald starts name its id, for the app to register its update token under."
    ),
    ConfigurationOption(
      "activities.channel_above", .integer(0...4_000_000_000), .integer(1000),
      "Starts of an activity for more devices with iOS 18 or later take a broadcast channel for its updates."),
    ConfigurationOption(
      "activities.default_stale_after_s", .integer(1...86_400), .none,
      "How long a device shows an activity's state as current, where the job has no stale-date."),

    ConfigurationOption("lanes", .integer(0...256), .integer(0), "Threads that send; 0 = one for each core."),
    ConfigurationOption(
      "drain_timeout_s", .integer(1...3600), .integer(25),
      "How long a stop waits for jobs in flight; the rest goes back to its queue."),

    ConfigurationOption(
      "admin.host", .text(.host), .text("127.0.0.1"), "The address on which health and metrics listen."),
    ConfigurationOption(
      "admin.port", .integer(0...65_535), .integer(8080), "The port of health and metrics; 0 = any free one."),
    ConfigurationOption(
      "admin.token_file", .text(.file), .none,
      "A secret that every change at the admin port must show; without it, only root and the worker's user on its machine may."
    ),

    ConfigurationOption(
      "gateway.host", .text(.host), .text("127.0.0.1"), "The address on which the gateway listens."),
    ConfigurationOption(
      "gateway.port", .integer(0...65_535), .integer(8090), "The port of the gateway; 0 = any free one."),
    ConfigurationOption(
      "gateway.certificate_file", .text(.file), .none,
      "The certificate chain of the gateway, PEM: with it, it speaks TLS. Read again on SIGHUP, and when the file changes."
    ),
    ConfigurationOption(
      "gateway.private_key_file", .text(.file), .none, "The private key of the certificate, PEM."),
    ConfigurationOption(
      "gateway.client_ca_file", .text(.file), .none,
      "The CA of client certificates: with it, a client without one cannot connect."),
    ConfigurationOption(
      "gateway.keys_file", .text(.file), .none, "The file that keeps API keys; without it, Redis keeps them."),
    ConfigurationOption(
      "gateway.connections_max", .integer(1...1_000_000), .integer(10_000),
      "Connections at a time; the gateway answers more of them with 503 and closes them."),
    ConfigurationOption(
      "gateway.readers_per_key_max", .integer(1...100), .integer(10),
      "Readers of outcomes at a time with one key; the gateway answers more of them with 429."),
    ConfigurationOption(
      "gateway.allow_everyone", .flag, .flag(false),
      "A request of the Live Activities API that names no target means everybody."),

    ConfigurationOption(
      "log.level", .choice(["trace", "debug", "info", "notice", "warning", "error", "critical"]), .text("info"),
      "The least severe message that is written.", isReloadable: true),
    ConfigurationOption(
      "log.format", .choice(["auto", "json", "text"]), .text("auto"),
      "JSON lines or text; auto: text on a terminal, JSON elsewhere."),
  ]

  /// By path.
  static let byPath = Dictionary(uniqueKeysWithValues: all.map { ($0.path, $0) })

  /// `rabbitmq`, `redis`, …, in the table's order.
  static let sections: [String] = all.reduce(into: []) { sections, option in
    if let section = option.section, sections.last != String(section) { sections.append(String(section)) }
  }
}
