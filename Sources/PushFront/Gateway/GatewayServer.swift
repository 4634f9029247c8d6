import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import PushSettings

/// The gateway's HTTP server.
enum GatewayServer {
  /// A service that serves until its group shuts down: then it accepts nothing, answers what it has, and ends. `isUp` is called when it
  /// listens.
  static func service(
    _ services: GatewayServices, configuration: Configuration.Gateway, tls: GatewayTLS?, page: GatewayPage,
    isUp: @escaping @Sendable () -> Void
  ) -> Server<GatewayChannel> {
    let logger = services.logger
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    return Server(
      childChannelSetup: GatewayChannel(
        responder: GatewayResponder(
          services: services, page: page, connectionsMaximum: configuration.connectionsMaximum), tls: tls),
      configuration: ServerConfiguration(
        address: .hostname(configuration.host, port: Int(configuration.port)), backlog: 1024),
      onServerRunning: { channel in
        let address = AdminServer.address(channel.localAddress) ?? configuration.host
        logger.info("gateway is up", metadata: ["address": "\(address)", "tls": "\(tls != nil)"])
        // First: NIO's own handler for such errors does not pass them on.
        try? await channel.eventLoop.submit {
          let pause = AcceptPause(metrics: services.metrics, logger: logger)
          try channel.pipeline.syncOperations.addHandler(pause, position: .first)
        }.get()
        isUp()
      },
      eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: quiet)
  }
}

/// Sets up the connections of the server.
struct GatewayChannel: ServerChildChannel {
  struct Value: ServerChildChannelValue {
    let channel: any Channel
  }

  let responder: GatewayResponder
  let tls: GatewayTLS?

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      // One read, then the next connection.
      try channel.syncOptions?.setOption(.maxMessagesPerRead, value: 1)
      let pipeline = channel.pipeline.syncOperations
      if let tls { try pipeline.addHandler(TLSHandler(context: tls.context)) }
      var limits = NIOHTTPDecoderLimitConfiguration()
      limits.maxHeaderFieldSize = GatewayLimits.headerFieldBytesMaximum
      limits.maxHeaderListSize = GatewayLimits.headerBytesMaximum
      limits.maxHeaderFieldCount = GatewayLimits.headerCountMaximum
      // The decoder keeps nothing but the start of a head, and what comes after a request for another protocol.
      try pipeline.addHandler(
        ByteToMessageHandler(
          HTTPRequestDecoder(limitConfiguration: limits), maximumBufferSize: GatewayLimits.undecodedBytesMaximum))
      try pipeline.addHandler(GatewayConnection(responder: responder))
      return Value(channel: channel)
    }
  }

  /// Waits for the end of the connection, which its handlers drive.
  func handle(value: Value, logger: Logger) async {
    await withTaskCancellationHandler {
      try? await value.channel.closeFuture.get()
    } onCancel: {
      value.channel.close(promise: nil)
    }
  }
}
