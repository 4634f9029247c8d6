extension SimulatedRabbitMQ {
  /// How a server is set up: what does not go wrong, but is so.
  package struct Settings: Sendable {
    package var user = "guest"
    package var password = "guest"
    package var virtualHost = "/"
    /// Offered; a client may ask for less.
    package var frameBytesMaximum = 131_072
    package var channelMaximum: UInt16 = 2047
    package var heartbeatSeconds: UInt16 = 60
    /// A delivery that is not settled for so long ends its channel; 0: never.
    package var consumerTimeoutNanoseconds: Int64 = 1_800_000_000_000
    /// How often that is looked at.
    package var channelTickNanoseconds: Int64 = 60_000_000_000
    /// How long a connection may take to be opened.
    package var handshakeNanoseconds: Int64 = 10_000_000_000
    /// From a publish to its confirm.
    package var confirmNanoseconds: Int64 = 0
    /// A dead letter that no queue takes is tried again after so long.
    package var deadLetterRetryNanoseconds: Int64 = 180_000_000_000
    /// Unix seconds when the world's clock is 0.
    package var unixSecondsAtZero: Int64 = 0
    /// Messages that a stream remembers, for who looks.
    package var streamMessagesMaximum = 10_000

    package init() {}
  }

  /// What goes wrong by itself, drawn from the seed: in thousandths where it is a rate. Nothing: a prompt server that behaves.
  package struct Faults: Sendable {
    /// A confirm comes up to so much later: single ones overtake each other.
    package var confirmSpreadNanoseconds: Int64 = 0
    /// Of the publishes: their confirm comes much later, up to `confirmLateNanoseconds`.
    package var confirmLate = 0
    package var confirmLateNanoseconds: Int64 = 3_000_000_000
    /// Of the times when confirms are sent: one by one and in any order, where one could be for all.
    package var confirmsSingle = 0
    /// Of the publishes with confirms: refused.
    package var publishRefused = 0
    /// Of those: kept all the same.
    package var refusedKept = 300
    /// Of the publishes with confirms: never confirmed, though kept.
    package var confirmDropped = 0
    /// Of the publishes to a full queue: kept, for whoever took them did not know yet.
    package var fullNoticedLate = 0
    /// Of the consumers that start: answered, and given messages, only after what was asked behind them.
    package var consumeAnsweredLate = 0
    /// At a restart, of the messages that nobody was promised: lost.
    package var unconfirmedLost = 0
    /// At a restart, of what consumers settled shortly before it: not settled.
    package var acknowledgementLost = 0
    package var acknowledgementLostNanoseconds: Int64 = 100_000_000
    /// At a restart, of the dead letters that were handed over shortly before it: handed over once more.
    package var handedOnTwice = 0
    package var handedOnTwiceNanoseconds: Int64 = 5_000_000_000
    /// At a restart, of the queues: what dies there is handed over `deadLetterRetryNanoseconds` later.
    package var handedOnLate = 0
    /// Of the publishes to a queue without a leader: refused at once, instead of kept back.
    package var unavailableRefused = 0

    package init() {}
  }
}
