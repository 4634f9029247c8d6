import Hummingbird
import HummingbirdCore
import Logging
import PushSettings

/// The gateway's HTTP server.
enum GatewayServer {
  /// A service that serves until its group shuts down: then it accepts nothing, answers what it has, and ends. `isUp` is called when it
  /// listens.
  static func application(
    _ services: GatewayServices, configuration: Configuration.Gateway, tls: GatewayTLS?, page: GatewayPage,
    isUp: @escaping @Sendable () -> Void
  ) -> some ApplicationProtocol {
    let logger = services.logger
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    let metrics = services.metrics
    let maximum = configuration.connectionsMaximum
    let server = HTTPServerBuilder { responder in
      let plain = HTTP1Channel(
        responder: responder,
        configuration: HTTP1Channel.Configuration(
          additionalChannelHandlers: [ConnectionGuard(metrics: metrics, connectionsMaximum: maximum)],
          httpDecoderConfiguration: HTTP1Channel.Configuration.DecoderConfiguration(
            maxHeaderFieldSize: GatewayLimits.headerFieldBytesMaximum,
            maxHeaderListSize: GatewayLimits.headerBytesMaximum,
            maxHeaderFieldCount: GatewayLimits.headerCountMaximum)))
      guard let tls else { return plain }
      return GatewayTLSChannel(base: plain, tls: tls)
    }
    return Application(
      responder: GatewayResponder(services: services, page: page), server: server,
      configuration: ApplicationConfiguration(
        address: .hostname(configuration.host, port: Int(configuration.port)), serverName: "herald",
        backlog: 1024),
      onServerRunning: { channel in
        let address = AdminServer.address(channel.localAddress) ?? configuration.host
        logger.info("gateway is up", metadata: ["address": "\(address)", "tls": "\(tls != nil)"])
        isUp()
      },
      logger: quiet)
  }
}
