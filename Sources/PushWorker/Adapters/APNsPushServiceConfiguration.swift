package import PushCore
package import PushIO

/// One host of APNs: where to connect, and what requests call it.
package struct APNsHost: Hashable, Sendable {
  package var endpoint: Endpoint
  /// `:authority` of requests.
  package var authority: String
  /// Without TLS: a simulator's.
  package var isPlaintext: Bool

  /// A host of TLS, as configured.
  package init(host: String, port: UInt16) {
    isPlaintext = false
    endpoint = Endpoint(host: host, port: port)
    authority = port == 443 ? endpoint.description.replacingPort443() : endpoint.description
  }

  /// Reads `https://host:port` (or `http://` for a simulator); nil where it is something else. The port defaults to 443.
  package init?(url: String) {
    let scheme: String
    if url.hasPrefix("https://") {
      scheme = "https://"
    } else if url.hasPrefix("http://") {
      scheme = "http://"
    } else {
      return nil
    }
    var rest = url.dropFirst(scheme.count)
    if rest.hasSuffix("/") { rest = rest.dropLast() }
    guard !rest.isEmpty, !rest.contains(where: { "/?#@ ".contains($0) }) else { return nil }
    isPlaintext = scheme == "http://"
    var host = rest
    var port: UInt16 = isPlaintext ? 80 : 443
    // A colon inside brackets belongs to an IPv6 address.
    if let colon = rest.lastIndex(of: ":"), !rest[colon...].contains("]") {
      guard let number = UInt16(rest[rest.index(after: colon)...]), number > 0 else { return nil }
      host = rest[..<colon]
      port = number
    }
    if host.hasPrefix("[") {
      guard host.hasSuffix("]") else { return nil }
      host = host.dropFirst().dropLast()
    }
    guard !host.isEmpty else { return nil }
    endpoint = Endpoint(host: String(host), port: port)
    authority = port == 443 ? endpoint.description.replacingPort443() : endpoint.description
  }
}

extension String {
  fileprivate func replacingPort443() -> String {
    hasSuffix(":443") ? String(dropLast(4)) : self
  }
}

/// What a lane's `APNsPushService` is made from: the `apns` section of the configuration.
package struct APNsPushServiceConfiguration: Sendable {
  package var production: APNsHost
  package var sandbox: APNsHost
  package var broadcastProduction: APNsHost
  package var broadcastSandbox: APNsHost
  /// From a request to its answer (`apns.request_timeout_ms`).
  package var requestTimeoutMilliseconds: Int64 = 10_000
  /// Connections of one pool (`apns.connections_max`: per lane, credential and environment).
  package var connectionsMaximum = 8
  /// Our own bound on streams of one connection, whatever the peer allows.
  package var streamsMaximum = 1_000
  package var connectOptions = ConnectOptions()
  /// Limits of time of each connection; `requestMilliseconds` is overridden by `requestTimeoutMilliseconds`.
  package var timing = ConnectionState.Timing()
  /// Rules of growth and back-off; `connectionsMaximum` is overridden by the one here.
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
    case (.production, .device), (.production, .suspects): production
    case (.sandbox, .device), (.sandbox, .suspects): sandbox
    case (.production, .broadcast): broadcastProduction
    case (.sandbox, .broadcast): broadcastSandbox
    }
  }
}
