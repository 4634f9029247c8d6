/// What can fail between this program and a broker: what was tried, where, and what to do. Never holds a password.
package enum AMQPError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The address is not an AMQP URL; the rule it breaks.
  case badURL(String)
  /// TCP or TLS could not be established.
  case cannotConnect(to: String, reason: String)
  /// The connection was open and ended; nil if the peer closed it without a reason.
  case connectionLost(to: String, reason: String?)
  /// We ended the connection, to reconnect.
  case ended(reason: String)
  /// The broker accepted the connection and did not finish the handshake in time.
  case handshakeTimedOut(to: String, waitingFor: String)
  /// The broker sent nothing for two heartbeat intervals.
  case heartbeatMissed(to: String, silentMilliseconds: Int64)
  /// Wrong user or password, or no right to the virtual host.
  case accessRefused(user: String, virtualHost: String, text: String)
  /// The broker offers no login mechanism that we support.
  case noCommonMechanism(offered: String)
  /// The peer answered with its own protocol header: it speaks another protocol or version.
  case notAMQP
  /// A frame is larger than the agreed maximum (or the one before it is agreed).
  case frameTooLarge(bytes: Int, maximum: Int)
  /// A frame does not end with 0xCE: the stream is out of sync.
  case badFrameEnd
  case unknownFrameKind(UInt8)
  /// A frame on a channel that is not open.
  case unexpectedChannel(UInt16)
  /// A method that is not allowed in this state, or that a broker never sends.
  case unexpectedMethod(id: UInt32, channel: UInt16)
  /// An unexpected header or body frame, or a body longer than announced.
  case unexpectedContent(channel: UInt16)
  /// A method's arguments could not be read.
  case malformedMethod(id: UInt32)
  /// A confirm of a message that was never published.
  case confirmOfNothing(sequence: UInt64, published: UInt64)
  /// The broker closed the connection, with its reason.
  case closedByBroker(code: UInt16, text: String)
  /// The broker closed a channel, with its reason.
  case channelClosed(channel: UInt16, code: UInt16, text: String)
  /// A queue or exchange exists with other arguments than ours.
  case mismatch(AMQPMismatch)
  /// A consumer ended because its queue was deleted or moved.
  case consumerCancelled(channel: UInt16)
  /// The broker takes no publishes while it has an alarm.
  case blocked(reason: String)
  /// An operation was not answered in time.
  case timedOut(operation: String, milliseconds: Int64)

  /// `reply-code`s that are treated differently.
  static let accessRefusedCode: UInt16 = 403
  static let notFoundCode: UInt16 = 404
  static let preconditionFailedCode: UInt16 = 406

  /// Whether the cause is that something does not exist.
  package var isNotFound: Bool {
    if case .channelClosed(_, AMQPError.notFoundCode, _) = self { return true }
    return false
  }

  /// Whether the description says which broker it was.
  package var namesPeer: Bool {
    switch self {
    case .cannotConnect, .connectionLost, .handshakeTimedOut, .heartbeatMissed: true
    case .badURL, .accessRefused, .noCommonMechanism, .notAMQP, .frameTooLarge, .badFrameEnd, .unknownFrameKind,
      .unexpectedChannel, .unexpectedMethod, .unexpectedContent, .malformedMethod, .confirmOfNothing, .closedByBroker,
      .channelClosed, .mismatch, .consumerCancelled, .blocked, .timedOut, .ended:
      false
    }
  }

  package var description: String {
    switch self {
    case .badURL(let rule):
      "not an AMQP URL: \(rule); expected amqp://user:password@host:port/vhost"
    case .cannotConnect(let peer, let reason):
      "cannot connect to RabbitMQ at \(peer): \(reason)"
    case .connectionLost(let peer, let reason):
      "connection to RabbitMQ at \(peer) lost: \(reason ?? "closed by the peer")"
    case .ended(let reason):
      "this side ended the connection to RabbitMQ: \(reason)"
    case .handshakeTimedOut(let peer, let what):
      "RabbitMQ at \(peer) accepted the connection but sent no \(what) in time"
    case .heartbeatMissed(let peer, let silent):
      "RabbitMQ at \(peer) sent nothing for \(silent) ms (two heartbeat intervals), so the connection was closed"
    case .accessRefused(let user, let virtualHost, let text):
      "RabbitMQ refused user '\(user)' on virtual host '\(virtualHost)': \(text); "
        + "check the password and the permissions"
    case .noCommonMechanism(let offered):
      "RabbitMQ offers the login mechanisms '\(offered)' but not PLAIN: enable PLAIN in its auth_mechanisms"
    case .notAMQP:
      "the peer does not speak AMQP 0-9-1: check host and port"
    case .frameTooLarge(let bytes, let maximum):
      "RabbitMQ sent a frame of \(bytes) bytes, over the agreed \(maximum)"
    case .badFrameEnd:
      "RabbitMQ sent a frame without its end mark"
    case .unknownFrameKind(let kind):
      "RabbitMQ sent a frame of unknown kind \(kind)"
    case .unexpectedChannel(let channel):
      "RabbitMQ sent a frame on channel \(channel), which is not open"
    case .unexpectedMethod(let id, let channel):
      "RabbitMQ sent method \(id >> 16).\(id & 0xFFFF) on channel \(channel), which is not allowed there"
    case .unexpectedContent(let channel):
      "RabbitMQ sent content out of turn on channel \(channel)"
    case .malformedMethod(let id):
      "RabbitMQ sent method \(id >> 16).\(id & 0xFFFF) with unreadable arguments"
    case .confirmOfNothing(let sequence, let published):
      "RabbitMQ confirmed message \(sequence) of \(published) published"
    case .closedByBroker(let code, let text):
      "RabbitMQ closed the connection: \(code) \(text)"
    case .channelClosed(let channel, let code, let text):
      "RabbitMQ closed channel \(channel): \(code) \(text)"
    case .mismatch(let mismatch):
      mismatch.description
    case .consumerCancelled(let channel):
      "RabbitMQ ended the consumer on channel \(channel): its queue was deleted or moved"
    case .blocked(let reason):
      "RabbitMQ is blocked by an alarm (\(reason)): it takes no messages until there is memory and disk again"
    case .timedOut(let operation, let milliseconds):
      "RabbitMQ did not answer \(operation) within \(milliseconds) ms"
    }
  }
}
