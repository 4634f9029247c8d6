/// One channel of a connection: its phase, the answers that are due, and the content being received.
struct AMQPChannelState {
  enum Phase: Equatable {
    /// Not open; a frame on it is a protocol error of the peer. → opening
    case closed
    /// channel.open was sent. → open, closing, closed
    case opening
    /// In use. → closing, closed
    case open
    /// channel.close was sent: everything before its answer is dropped. → closed
    case closing
  }

  /// A message between its method and the last byte of its body.
  enum Content: Equatable {
    case none
    /// The method came; the content header is next.
    case awaitingHeader(Kind)
    /// The header came; this many bytes of body are still to come.
    case awaitingBody(Kind, size: Int, remaining: Int)

    enum Kind: Equatable {
      case delivery(tag: UInt64, isRedelivered: Bool)
      case returned(code: UInt16)
    }
  }

  /// An operation that was sent and is not answered yet.
  struct Pending: Equatable {
    var number: UInt32
    var reply: Reply
  }

  /// The kinds of answers.
  enum Reply: Equatable {
    case channelOpen, channelClose, exchangeDeclare, exchangeDelete, queueDeclare, queueBind, queueUnbind, queuePurge,
      queueDelete, qos, consume, cancel, confirmSelect
  }

  var phase = Phase.closed
  var pending: [Pending] = []
  var content = Content.none
  var isConfirming = false
  /// The broker takes no publishes on it now (channel.flow).
  var isStopped = false
  /// Publishes on this channel since confirm.select: the last one's number.
  var publishedCount: UInt64 = 0
  /// Why the broker closed it.
  var error: AMQPError?

  /// A new channel with the same number.
  mutating func reset(to phase: Phase) {
    self.phase = phase
    pending.removeAll()
    content = .none
    isConfirming = false
    isStopped = false
    publishedCount = 0
  }
}

extension AMQPOperation {
  /// The kind of answer that it waits for.
  var reply: AMQPChannelState.Reply {
    switch self {
    case .openChannel: .channelOpen
    case .closeChannel: .channelClose
    case .declareExchange, .inspectExchange: .exchangeDeclare
    case .declareQueue, .inspectQueue: .queueDeclare
    case .bind: .queueBind
    case .unbind: .queueUnbind
    case .purge: .queuePurge
    case .deleteQueue: .queueDelete
    case .deleteExchange: .exchangeDelete
    case .prefetch: .qos
    case .consume: .consume
    case .cancel: .cancel
    case .selectConfirms: .confirmSelect
    }
  }
}
