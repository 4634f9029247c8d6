/// Bounds of the gateway's HTTP side.
enum GatewayLimits {
  /// A request's body.
  static let bodyBytesMaximum = 1 << 20
  /// The bodies of all requests together.
  static let bodiesBytesMaximum = 64 << 20
  /// A request's head comes within this, from the connection's beginning or its first byte.
  static let headSeconds: Int64 = 10
  /// Its body.
  static let bodySeconds: Int64 = 30
  /// Between two requests.
  static let idleSeconds: Int64 = 75
  /// A client that was answered early may still send for so long.
  static let lingerSeconds: Int64 = 2
  static let headerFieldBytesMaximum = 8 << 10
  static let headerBytesMaximum = 16 << 10
  static let headerCountMaximum = 100
  /// What a client that is told to come back waits.
  static let retryAfterSeconds = 1
}
