import HummingbirdCore
import Logging
import NIOCore
import PushIO
import PushSettings
import Synchronization

/// The gateway's certificate. New connections use the one that was read last.
final class GatewayTLS: Sendable {
  let files: GatewayTLSFiles
  private let current: Mutex<TLSContext>

  /// Throws what is wrong with the files.
  init(_ files: GatewayTLSFiles) throws(TLSError) {
    self.files = files
    current = Mutex(try GatewayTLS.read(files))
  }

  var context: TLSContext { current.withLock { $0 } }

  /// Reads the files again. If one of them is wrong, nothing changes.
  func reload() throws(TLSError) {
    let newer = try GatewayTLS.read(files)
    current.withLock { $0 = newer }
  }

  private static func read(_ files: GatewayTLSFiles) throws(TLSError) -> TLSContext {
    try .server(
      certificateFile: files.certificate, keyFile: files.privateKey, alpn: ["http/1.1"], clientCAFile: files.clientCA)
  }
}

/// Sets up connections with TLS below `base`.
struct GatewayTLSChannel<Base: ServerChildChannel>: ServerChildChannel {
  typealias Value = Base.Value

  let base: Base
  let tls: GatewayTLS

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.addHandler(TLSHandler(context: tls.context))
    }.flatMap { base.setup(channel: channel, logger: logger) }
  }

  func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}
