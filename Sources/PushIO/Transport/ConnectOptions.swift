/// A transport's connection options and limits.
package struct ConnectOptions: Sendable {
  /// From the call until the transport is open: look-up, all addresses, TLS.
  package var connectTimeoutMilliseconds: Int64 = 10_000
  /// For one address of several.
  package var attemptTimeoutMilliseconds: Int64 = 4_000
  /// If an address has not answered after this time, the next one is tried beside it.
  package var staggerMilliseconds: Int64 = 250
  /// From `close()` to the end: the peer must take the unwritten bytes by then.
  package var closeTimeoutMilliseconds: Int64 = 2_000
  /// Reading pauses at this many bytes in `inbound`. It continues after a flush that finds room.
  package var inboundLimit = 1 << 20
  /// An idle TCP connection is probed after this long, and closed after three more probes, 10 s apart.
  package var keepAliveSeconds: Int32 = 30
  /// The name that the peer's certificate must carry and that SNI asks for; nil: the endpoint's host.
  package var serverName: String?
  /// The proxy to use; it resolves the endpoint's name. nil: a direct connection.
  package var proxy: Proxy?

  package init() {}
}
