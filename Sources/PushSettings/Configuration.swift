package import Logging
package import PushCore
package import PushIO

/// Herald's configuration: checked, complete and immutable. `ConfigurationLoader` makes it.
package struct Configuration: Equatable, Sendable {
  /// Unacknowledged deliveries of all lanes of a process: `lanes` times `rabbitmq.prefetch`. Each lane has tables for twice its share, about
  /// 2 KB for each delivery.
  package static let unacknowledgedMaximum = 2_000_000
  /// A lane's tables for each delivery of its prefetch, bytes, at least: its size whether there are jobs or not.
  package static let tableBytesOfDelivery = 2_048
  /// Connections to APNs that all lanes of a process may open: `lanes` times credentials and their environments times
  /// `apns.connections_max`. Linux gives a process about as many descriptors at most (`fs.nr_open`).
  package static let connectionsMaximum = 1_000_000

  package struct RabbitMQ: Equatable, Sendable {
    /// The nodes to try in turn; at least one.
    package let urls: [String]
    package let prefix: String
    package let prefetch: Int
    package let caFile: String?
    package let trustsOnlyCAFile: Bool
    /// nil: policies are not looked at.
    package let management: ManagementAddress?
  }

  package struct Redis: Equatable, Sendable {
    package let url: String
    package let prefix: String
    package let timeoutMilliseconds: Int
    package let caFile: String?
    package let trustsOnlyCAFile: Bool
    /// The file of the key that encrypts provider tokens; nil: they are stored unencrypted.
    package let tokenKeyFile: String?
  }

  package struct Registry: Equatable, Sendable {
    /// nil: that of `redis.url`.
    package let url: String?
  }

  package struct Activities: Equatable, Sendable {
    /// nil: the id is written nowhere.
    package let idAttribute: ActivityIDAttribute?
    /// Devices.
    package let channelAbove: Int
    /// nil: for ever.
    package let defaultStaleAfterSeconds: Int64?
  }

  package struct APNs: Equatable, Sendable {
    package let production: ServiceAddress
    package let sandbox: ServiceAddress
    package let broadcastProduction: ServiceAddress
    package let broadcastSandbox: ServiceAddress
    package let manageProduction: ServiceAddress
    package let manageSandbox: ServiceAddress
    package let caFile: String?
    package let trustsOnlyCAFile: Bool
    package let proxy: ServiceAddress?
    package let connectionsMaximum: Int
    package let requestTimeoutMilliseconds: Int
  }

  package struct Limits: Equatable, Sendable {
    package let rates: RateLimits
    package let onLimit: RateLimitPolicy
  }

  package struct Results: Equatable, Sendable {
    package let isLogged: Bool
    package let logMaximumAge: String
    package let logMaximumBytes: Int
  }

  package struct Admin: Equatable, Sendable {
    package let host: String
    package let port: UInt16
    /// nil: the kernel says who a change comes from.
    package let tokenFile: String?
  }

  package struct Gateway: Equatable, Sendable {
    package let host: String
    package let port: UInt16
    /// nil: plain HTTP.
    package let tls: GatewayTLSFiles?
    /// nil: Redis keeps the keys.
    package let keysFile: String?
    package let connectionsMaximum: Int
    package let readersOfKeyMaximum: Int
    package let allowsEveryone: Bool
    /// What clients of the Live Activities API mean by an application's code, `XXXXX-XXXXX`.
    package let applications: [String: LiveActivitiesApplication]
  }

  package struct Log: Equatable, Sendable {
    package let level: Logger.Level
    package let format: LogFormat
  }

  package let rabbitmq: RabbitMQ
  package let redis: Redis
  package let registry: Registry
  package let apns: APNs

  /// The Redis that keeps devices.
  package var registryURL: String { registry.url ?? redis.url }

  /// How long an admitted job may be in flight: it waits for room and for APNs, and perhaps a second time for both if it is sent again at
  /// once.
  package var claimSeconds: Int64 {
    let attempt = PushCore.Limits.roomWaitMilliseconds + Int64(apns.requestTimeoutMilliseconds)
    return 2 * attempt / 1000 + Configuration.claimMarginSeconds
  }
  private static let claimMarginSeconds: Int64 = 20

  package let credentials: [CredentialConfiguration]
  package let limits: Limits
  package let retry: RetryPolicy
  package let results: Results
  /// 0 = one for each core.
  package let activities: Activities
  package let lanes: Int
  package let drainTimeoutMilliseconds: Int64
  package let admin: Admin
  package let gateway: Gateway
  package let log: Log

  /// The file it was read from; nil if there was none.
  package let file: String?
  /// The effective value of every option, by path.
  let values: [String: ConfigurationValue]

  /// `values` has every option of the table, with valid values.
  init(
    values: ConfigurationValues, credentials: [CredentialConfiguration],
    applications: [String: LiveActivitiesApplication], file: String?
  ) {
    let urls = values.texts("rabbitmq.urls")
    rabbitmq = RabbitMQ(
      urls: urls.isEmpty ? [values.text("rabbitmq.url")] : urls, prefix: values.text("rabbitmq.prefix"),
      prefetch: values.integer("rabbitmq.prefetch"), caFile: values.optionalText("rabbitmq.ca_file"),
      trustsOnlyCAFile: values.flag("rabbitmq.ca_only"),
      management: values.optionalText("rabbitmq.management_url").flatMap(ManagementAddress.init))
    redis = Redis(
      url: values.text("redis.url"), prefix: values.text("redis.prefix"),
      timeoutMilliseconds: values.integer("redis.timeout_ms"), caFile: values.optionalText("redis.ca_file"),
      trustsOnlyCAFile: values.flag("redis.ca_only"),
      tokenKeyFile: values.optionalText("redis.token_key_file"))
    registry = Registry(url: values.optionalText("registry.url"))
    apns = APNs(
      production: values.service("apns.production"), sandbox: values.service("apns.sandbox"),
      broadcastProduction: values.service("apns.broadcast_production"),
      broadcastSandbox: values.service("apns.broadcast_sandbox"),
      manageProduction: values.service("apns.manage_production"), manageSandbox: values.service("apns.manage_sandbox"),
      caFile: values.optionalText("apns.ca_file"), trustsOnlyCAFile: values.flag("apns.ca_only"),
      proxy: values.proxy("apns.proxy"), connectionsMaximum: values.integer("apns.connections_max"),
      requestTimeoutMilliseconds: values.integer("apns.request_timeout_ms"))
    let burst = values.integer("limits.per_device_burst")
    limits = Limits(
      rates: RateLimits(
        burst == 0 ? nil : RateLimit(burst: burst, perSecond: values.number("limits.per_device_per_second")),
        overrides: values.texts("limits.overrides").compactMap(RateLimitText.parse)),
      onLimit: values.choice("limits.on_limit"))
    retry = RetryPolicy(
      delaysSeconds: values.integers("retry.delays_s"), attemptsMaximum: UInt32(values.integer("retry.attempts_max")),
      ageMaximumSeconds: Int64(values.integer("retry.age_max_s")))
    results = Results(
      isLogged: values.flag("results.log"), logMaximumAge: values.text("results.log_max_age"),
      logMaximumBytes: values.integer("results.log_max_bytes"))
    activities = Activities(
      idAttribute: values.optionalText("activities.id_attribute").flatMap(ActivityIDAttribute.init),
      channelAbove: values.integer("activities.channel_above"),
      defaultStaleAfterSeconds: values.optionalInteger("activities.default_stale_after_s").map(Int64.init))
    lanes = values.integer("lanes")
    drainTimeoutMilliseconds = Int64(values.integer("drain_timeout_s")) * 1000
    admin = Admin(
      host: values.text("admin.host"), port: UInt16(values.integer("admin.port")),
      tokenFile: values.optionalText("admin.token_file"))
    gateway = Gateway(
      host: values.text("gateway.host"), port: UInt16(values.integer("gateway.port")),
      tls: values.optionalText("gateway.certificate_file").flatMap { certificate in
        values.optionalText("gateway.private_key_file").map { key in
          GatewayTLSFiles(
            certificate: certificate, privateKey: key, clientCA: values.optionalText("gateway.client_ca_file"))
        }
      },
      keysFile: values.optionalText("gateway.keys_file"),
      connectionsMaximum: values.integer("gateway.connections_max"),
      readersOfKeyMaximum: values.integer("gateway.readers_per_key_max"),
      allowsEveryone: values.flag("gateway.allow_everyone"), applications: applications)
    log = Log(level: values.choice("log.level"), format: values.choice("log.format"))
    self.credentials = credentials
    self.file = file
    self.values = values.byPath
  }

  /// The paths of changed options that require a restart.
  package func pathsNeedingRestart(comparedTo other: Configuration) -> [String] {
    ConfigurationOption.all.filter { !$0.isReloadable && values[$0.path] != other.values[$0.path] }.map(\.path)
  }

  /// Every option with its effective value, for output: passwords are `***`.
  package var effective: [(path: String, value: String)] {
    ConfigurationOption.all.map { option in
      let text = values[option.path, default: option.defaultValue].yaml
      return (option.path, option.isSecret ? ServiceAddress.redacted(text) : text)
    }
  }
}

extension Configuration.Redis {
  /// The TLS context for a Redis at this address; nil if it uses no TLS.
  package func tls(_ address: RedisConfiguration) throws(TLSError) -> TLSContext? {
    try address.tls(caFile: caFile, trustsOnlyCAFile: trustsOnlyCAFile)
  }
}
