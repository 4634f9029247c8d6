import PushCore

/// Where to connect to: a host (name or numeric address) and port, or a unix socket's path.
package struct Endpoint: Hashable, Sendable, CustomStringConvertible {
  /// A name, `127.0.0.1` or `::1` (no brackets). Empty for a unix socket.
  package let host: String
  /// 0 for a unix socket.
  package let port: UInt16
  /// Set for a unix socket.
  package let unixPath: String?

  package init(host: String, port: UInt16) {
    self.host = host
    self.port = port
    unixPath = nil
  }

  package init(unixPath: String) {
    host = ""
    port = 0
    self.unixPath = unixPath
  }

  package var description: String {
    if let unixPath { return "unix:\(unixPath)" }
    return HostPort.text(host, port)
  }
}
