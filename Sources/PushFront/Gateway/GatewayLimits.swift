/// Bounds of the gateway's HTTP side.
enum GatewayLimits {
  /// Maximum of one request's body.
  static let bodyBytesMaximum = 1 << 20
  /// Maximum of all bodies in memory together. Of these, and of what follows, a key may hold three times what it leaves to all others.
  static let bodiesBytesMaximum = 64 << 20
  /// Maximum of requests in memory, about in bytes, that clients sent before the answers to others.
  static let pipelinedBytesMaximum = 64 << 20
  /// Maximum of the same, of each, that came without a valid key. It is no part of the maximum for keys.
  static let unkeyedBytesMaximum = 8 << 20
  /// The key must be in the head of a request, or in so much of its body: no more is read without one. One read may bring as much again.
  static let unkeyedBodyBytesMaximum = 64 << 10
  /// Timeout for the part of a body that has the key, from the request's head.
  static let keySeconds: Int64 = 10
  /// A body or an answer up to this size is read or written on the event loop, a larger one beside it.
  static let smallWorkBytesMaximum = 16 << 10
  /// Timeout for the first request's head, from the beginning of the connection. A later head has `idleSeconds`.
  static let headSeconds: Int64 = 10
  /// Timeout for a request's body, from the request's head.
  static let bodySeconds: Int64 = 30
  /// Timeout between two requests of a connection.
  static let idleSeconds: Int64 = 75
  /// Bytes of a stream that are written together.
  static let streamPartBytes = 16 << 10
  /// How long a client may take nothing of a stream that is being written to it.
  static let streamSeconds: Int64 = 30
  /// How long a client may take nothing of its last answer, or of a stream, while the gateway stops.
  static let stopSeconds: Int64 = 5
  /// Maximum of requests of a connection that are answered before others have their turn.
  static let requestsOfTurnMaximum = 64
  /// How long a server without file descriptors accepts nothing.
  static let acceptPauseSeconds: Int64 = 1
  /// How long input is dropped before the close, after an early answer.
  static let lingerSeconds: Int64 = 2
  static let headerFieldBytesMaximum = 8 << 10
  static let headerBytesMaximum = 16 << 10
  static let headerCountMaximum = 100
  /// Maximum of bytes that arrive and are no part of a request yet.
  static let undecodedBytesMaximum = 64 << 10
  /// Elements of a page of a list: by default, and at most.
  static let pageDefault = 100
  static let pageMaximum = 500
  /// Maximum of jobs in one request of JSON Lines.
  static let linesMaximum = 10_000
  /// The `Retry-After` of a 503.
  static let retryAfterSeconds = 1
}
