/// A connection's bounds, each by its name.
package struct AMQPOptions: Equatable, Sendable {
  /// Channels that may be opened: 1 to this number.
  package var channelCount: UInt16 = 4
  /// Frames that we accept and send, overhead included; the broker may ask for less.
  package var frameBytesMaximum: UInt32 = 131_072
  /// What we ask for where the URL says nothing; the broker may ask for less. 0 = none. A silent peer is given up after two
  /// of them, looked at twice in each: so within 17.5 s.
  package var heartbeatSeconds: UInt16 = 7
  /// From the open transport to the open connection.
  package var handshakeTimeoutMilliseconds: Int64 = 10_000
  /// Bytes of one body that are kept.
  package var bodyBytesMaximum = 512 * 1024
  /// Bytes of a larger body that are kept all the same, until the next event: for a user who hands it on at once. Larger
  /// ones are dropped.
  package var oversizedBytesMaximum = 0
  /// TCP and TLS.
  package var connectTimeoutMilliseconds: Int64 = 10_000

  package init() {}
}

/// What both sides agreed on.
struct AMQPTuning: Equatable {
  var channelMax: UInt16
  /// Overhead included; never 0.
  var frameMax: UInt32
  /// 0 = none.
  var heartbeatSeconds: UInt16
}
