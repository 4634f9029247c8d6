package import PushCore
package import PushIO
package import PushSettings

/// What a `ChannelClient` is made from: the management hosts of the `apns` section, and its bounds.
package struct ChannelClientConfiguration: Sendable {
  package var production: APNsHost
  package var sandbox: APNsHost
  /// From a request's sending to its answer (`apns.request_timeout_ms`).
  package var requestTimeoutMilliseconds: Int64 = 10_000
  /// How long a request waits to be sent while nothing else moves: for a connection, a stream, or a provider token.
  package var waitMilliseconds: Int64 = 15_000
  /// Requests of one credential and environment that wait to be sent; more are refused.
  package var waitingMaximum = 2 * ChannelLimit.apple
  /// Our own bound on streams of one connection, whatever the peer allows.
  package var streamsMaximum = 100
  /// A connection without requests is closed after this.
  package var idleMilliseconds: Int64 = 30_000
  /// After a connect that failed, the next one begins no earlier than this.
  package var reconnectMilliseconds: Int64 = 500
  package var connectOptions = ConnectOptions()
  /// Limits of time of each connection; `requestMilliseconds` is overridden by `requestTimeoutMilliseconds`.
  package var timing = ConnectionState.Timing()

  package init(production: APNsHost, sandbox: APNsHost) {
    self.production = production
    self.sandbox = sandbox
  }

  /// What the `apns` section asks for.
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
