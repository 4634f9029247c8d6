import PushCore
import PushIO
import PushSettings

/// Where a `ChannelManager` finds APNs, and how long it waits. The defaults are Apple's hosts without a proxy.
public struct ChannelManagerOptions: Sendable {
  /// `https://host:port` of production's channel management; `http://` for a simulator without TLS.
  public var production = "https://api-manage-broadcast.push.apple.com:2196"
  /// The same for the sandbox.
  public var sandbox = "https://api-manage-broadcast.sandbox.push.apple.com:2195"
  /// A PEM file of an authority to trust in addition to the system's, such as a simulator's.
  public var authorityFile: String?
  /// `http://user:password@host:port` of a proxy that supports CONNECT.
  public var proxy: String?
  /// From a request's sending to its answer.
  public var requestTimeout = Duration.seconds(10)

  /// Apple's hosts, without a proxy.
  public init() {}

  /// The client's configuration.
  func configuration() throws(ChannelError) -> ChannelClientConfiguration {
    var configuration = ChannelClientConfiguration(production: try host(production), sandbox: try host(sandbox))
    let milliseconds = requestTimeout / .milliseconds(1)
    guard milliseconds >= 1, milliseconds <= 3_600_000 else {
      throw ChannelError(invalid: "requestTimeout must be 1 ms to 1 hour, not \(requestTimeout)")
    }
    configuration.requestTimeoutMilliseconds = Int64(milliseconds)
    configuration.timing.watch(requestTimeoutMilliseconds: configuration.requestTimeoutMilliseconds)
    if let proxy {
      guard let address = ServiceAddress(proxy, scheme: "http", defaultPort: 3128) else {
        throw ChannelError(invalid: "proxy must be http://user:password@host:port")
      }
      configuration.connectOptions.proxy = Proxy(
        endpoint: Endpoint(host: address.host, port: address.port), user: address.user, password: address.password)
    }
    return configuration
  }

  private func host(_ url: String) throws(ChannelError) -> APNsHost {
    guard let host = APNsHost(url: url) else {
      throw ChannelError(invalid: "a host must be https://host:port, not \"\(url.prefix(200))\"")
    }
    return host
  }
}
