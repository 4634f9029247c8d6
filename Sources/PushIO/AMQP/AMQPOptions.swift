/// A connection's limits.
package struct AMQPOptions: Equatable, Sendable {
  /// Channel numbers: 1 to this number.
  package var channelCount: UInt16 = 4
  /// Maximum size of frames, overhead included; the broker may ask for less.
  package var frameBytesMaximum: UInt32 = 131_072
  /// Requested if the URL does not set it; the broker may ask for less. 0 = none. A peer that is silent for two heartbeats is given up.
  /// This is checked twice in each, so it takes at most 17.5 s.
  package var heartbeatSeconds: UInt16 = 7
  /// From the open transport to the open connection.
  package var handshakeTimeoutMilliseconds: Int64 = 10_000
  /// Maximum size of a body that is kept, bytes.
  package var bodyBytesMaximum = 512 * 1024
  /// Larger bodies up to this size are kept until the next event, for a user who passes them on at once. Still larger ones are dropped.
  package var oversizedBytesMaximum = 0
  /// It can be read where each delivery was published to.
  package var keepsAddresses = false
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
