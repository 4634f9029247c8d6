package import PushCore
package import PushIO
package import PushSettings

/// The settings of a `ChannelClient`: the management hosts in the `apns` section, and limits.
package struct ChannelClientConfiguration: Sendable {
  package var production: APNsHost
  package var sandbox: APNsHost
  /// From a request's sending to its answer (`apns.request_timeout_ms`).
  package var requestTimeoutMilliseconds: Int64 = 10_000
  /// How long a request waits to be sent if nothing else moves: for a connection, a stream, or a provider token.
  package var waitMilliseconds: Int64 = 15_000
  /// Maximum of waiting requests of one credential and environment; more are refused.
  package var waitingMaximum = 2 * ChannelLimit.apple
  /// Our own limit on a connection's streams, even if the peer allows more.
  package var streamsMaximum = 100
  /// A connection without requests is closed after this.
  package var idleMilliseconds: Int64 = 30_000
  /// After a failed connect, the next one starts no earlier than this.
  package var reconnectMilliseconds: Int64 = 500
  package var connectOptions = ConnectOptions()
  /// Time limits of each connection; `requestTimeoutMilliseconds` overrides `requestMilliseconds`.
  package var timing = ConnectionState.Timing()

  package init(production: APNsHost, sandbox: APNsHost) {
    self.production = production
    self.sandbox = sandbox
  }

  /// The settings in the `apns` section.
  package init(_ apns: Configuration.APNs) {
    self.init(production: APNsHost(apns.manageProduction), sandbox: APNsHost(apns.manageSandbox))
    requestTimeoutMilliseconds = Int64(apns.requestTimeoutMilliseconds)
    timing.watch(requestTimeoutMilliseconds: requestTimeoutMilliseconds)
    connectOptions = ConnectOptions(through: apns.proxy)
  }

  func host(_ environment: APNsEnvironment) -> APNsHost {
    switch environment {
    case .production: production
    case .sandbox: sandbox
    }
  }
}
