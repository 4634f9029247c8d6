/// How a transport connects, and its bounds.
package struct ConnectOptions: Sendable {
  /// From the call to the open transport: look-up, every address, TLS.
  package var connectTimeoutMilliseconds: Int64 = 10_000
  /// For one address of several.
  package var attemptTimeoutMilliseconds: Int64 = 4_000
  /// The next address is tried beside the one before where that one has not answered by then.
  package var staggerMilliseconds: Int64 = 250
  /// From `close()` to the end: what is left to write must be taken by the peer until then.
  package var closeTimeoutMilliseconds: Int64 = 2_000
  /// Bytes in `inbound` at which reading pauses. It goes on by itself after a flush that finds room.
  package var inboundLimit = 1 << 20
  /// An idle TCP connection is probed after this long, and given up after three more probes, 10 s apart.
  package var keepAliveSeconds: Int32 = 30
  /// The name that the peer's certificate must carry and that SNI asks for; nil: the endpoint's host.
  package var serverName: String?
  /// The proxy to go through; it looks the endpoint's name up. nil: straight.
  package var proxy: Proxy?

  package init() {}
}
