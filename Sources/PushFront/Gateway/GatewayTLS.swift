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
