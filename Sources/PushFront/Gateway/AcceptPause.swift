import Logging
import NIOCore
import PushIO
import Synchronization

/// Pauses the accept loop when a connection cannot be accepted, such as without file descriptors. Without a pause the event loop would try
/// again at once, for ever.
final class AcceptPause: ChannelInboundHandler {
  typealias InboundIn = any Channel

  private let metrics: GatewayMetrics
  private let logger: Logger
  /// Since the last connection.
  private var hasFailed = false

  init(metrics: GatewayMetrics, logger: Logger) {
    self.metrics = metrics
    self.logger = logger
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    hasFailed = false
    context.fireChannelRead(data)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard let error = error as? IOError else { return context.fireErrorCaught(error) }
    metrics.acceptFailures.add(1, ordering: .relaxed)
    if !hasFailed {
      hasFailed = true
      logger.error(
        """
        no connection can be accepted: \(systemErrorText(error.errnoCode)); tried again every \(GatewayLimits.acceptPauseSeconds) s. \
        The limit of file descriptors must exceed gateway.connections_max
        """)
    }
    let options = context.channel.syncOptions
    try? options?.setOption(.autoRead, value: false)
    context.eventLoop.assumeIsolated().scheduleTask(in: .seconds(GatewayLimits.acceptPauseSeconds)) {
      try? options?.setOption(.autoRead, value: true)
    }
  }
}
