import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import PushSettings
import Synchronization

/// The gateway's certificate: connections take the one that was read last.
final class GatewayTLS: Sendable {
  let files: GatewayTLSFiles
  private let current: Mutex<NIOSSLContext>

  /// Throws what is wrong with the files.
  init(_ files: GatewayTLSFiles) throws {
    self.files = files
    current = Mutex(try GatewayTLS.read(files))
  }

  var context: NIOSSLContext { current.withLock { $0 } }

  /// Reads the files again. Where one is wrong, nothing changes.
  func reload() throws {
    let newer = try GatewayTLS.read(files)
    current.withLock { $0 = newer }
  }

  private static func read(_ files: GatewayTLSFiles) throws -> NIOSSLContext {
    do {
      let chain = try NIOSSLCertificate.fromPEMFile(files.certificate)
      let key = try NIOSSLPrivateKey(file: files.privateKey, format: .pem)
      var configuration = TLSConfiguration.makeServerConfiguration(
        certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(key))
      configuration.minimumTLSVersion = .tlsv12
      configuration.applicationProtocols = ["http/1.1"]
      if let clientCA = files.clientCA {
        configuration.trustRoots = .file(clientCA)
        configuration.certificateVerification = .noHostnameVerification
      }
      return try NIOSSLContext(configuration: configuration)
    } catch {
      throw GatewayTLSError(description: "the certificate \(files.certificate) cannot be used with its key: \(error)")
    }
  }
}

struct GatewayTLSError: Error, CustomStringConvertible {
  let description: String
}

/// Connections that speak TLS with the certificate of their time.
struct GatewayTLSChannel<Base: ServerChildChannel>: ServerChildChannel {
  typealias Value = Base.Value

  let base: Base
  let tls: GatewayTLS

  func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
    channel.eventLoop.makeCompletedFuture {
      try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: tls.context))
    }.flatMap { base.setup(channel: channel, logger: logger) }
  }

  func handle(value: Value, logger: Logger) async { await base.handle(value: value, logger: logger) }
}
