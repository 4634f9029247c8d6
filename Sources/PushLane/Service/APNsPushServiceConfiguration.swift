package import PushCore
package import PushIO

/// The settings of a lane's `APNsPushService`: the `apns` section of the configuration.
package struct APNsPushServiceConfiguration: Sendable {
  package var production: APNsHost
  package var sandbox: APNsHost
  package var broadcastProduction: APNsHost
  package var broadcastSandbox: APNsHost
  /// From a request to its answer (`apns.request_timeout_ms`).
  package var requestTimeoutMilliseconds: Int64 = 10_000
  /// Connections of one pool (`apns.connections_max`: per lane, credential and environment).
  package var connectionsMaximum = 8
  /// Our own limit on a connection's streams, even if the peer allows more.
  package var streamsMaximum = 1_000
  package var connectOptions = ConnectOptions()
  /// Time limits of each connection; `requestTimeoutMilliseconds` overrides `requestMilliseconds`.
  package var timing = ConnectionState.Timing()
  /// Rules of growth and back-off; the value above overrides `connectionsMaximum`.
  package var poolLimits = PoolState.Limits()
  /// Shared by the lanes of a process.
  package var acceptances = AcceptanceTimes()

  package init(production: APNsHost, sandbox: APNsHost, broadcastProduction: APNsHost, broadcastSandbox: APNsHost) {
    self.production = production
    self.sandbox = sandbox
    self.broadcastProduction = broadcastProduction
    self.broadcastSandbox = broadcastSandbox
  }

  func host(_ environment: APNsEnvironment, _ kind: APNsPoolKind) -> APNsHost {
    switch (environment, kind) {
    case (.production, .device), (.production, .badTokens): production
    case (.sandbox, .device), (.sandbox, .badTokens): sandbox
    case (.production, .broadcast): broadcastProduction
    case (.sandbox, .broadcast): broadcastSandbox
    }
  }
}
