extension SimulatedRabbitMQ {
  /// The setup of a server, without faults.
  package struct Settings: Sendable {
    package var user = "guest"
    package var password = "guest"
    package var virtualHost = "/"
    /// Offered; a client may request less.
    package var frameBytesMaximum = 131_072
    package var channelMaximum: UInt16 = 2047
    package var heartbeatSeconds: UInt16 = 60
    /// A delivery that is unsettled for longer closes its channel; 0: never.
    package var consumerTimeoutNanoseconds: Int64 = 1_800_000_000_000
    /// How often the consumer timeout is checked.
    package var channelTickNanoseconds: Int64 = 60_000_000_000
    /// The limit for opening a connection.
    package var handshakeNanoseconds: Int64 = 10_000_000_000
    /// From a publish to its confirm.
    package var confirmNanoseconds: Int64 = 0
    /// A dead letter that no queue accepted is retried after this time.
    package var deadLetterRetryNanoseconds: Int64 = 180_000_000_000
    /// Unix seconds at time 0 of the world's clock.
    package var unixSecondsAtZero: Int64 = 0
    /// Messages that a stream keeps for observers.
    package var streamMessagesMaximum = 10_000

    package init() {}
  }

  /// Random faults, drawn from the seed; rates are per mille. The default has none: a prompt server without errors.
  package struct Faults: Sendable {
    /// A confirm is delayed by up to this time, so confirms overtake each other.
    package var confirmSpreadNanoseconds: Int64 = 0
    /// Of the publishes: confirmed much later, by up to `confirmLateNanoseconds`.
    package var confirmLate = 0
    package var confirmLateNanoseconds: Int64 = 3_000_000_000
    /// Of the times when confirms are sent: one by one in any order, instead of one "multiple".
    package var confirmsSingle = 0
    /// Of the publishes with confirms: refused.
    package var publishRefused = 0
    /// Of the refused publishes: kept all the same.
    package var refusedKept = 300
    /// Of the publishes with confirms: kept, but never confirmed.
    package var confirmDropped = 0
    /// Of the publishes to a full queue: kept, because the channel did not know yet.
    package var fullNoticedLate = 0
    /// Of the consumers that start: answered, and given messages, only after the methods that follow.
    package var consumeAnsweredLate = 0
    /// At a restart, of the unconfirmed messages: lost.
    package var unconfirmedLost = 0
    /// At a restart, of the settlements shortly before it: lost.
    package var acknowledgementLost = 0
    package var acknowledgementLostNanoseconds: Int64 = 100_000_000
    /// At a restart, of the dead letters that were handed over shortly before it: handed over again.
    package var handedOnTwice = 0
    package var handedOnTwiceNanoseconds: Int64 = 5_000_000_000
    /// At a restart, of the queues: dead letters are handed over `deadLetterRetryNanoseconds` later.
    package var handedOnLate = 0
    /// Of the publishes to a queue without a leader: refused at once, instead of held back.
    package var unavailableRefused = 0

    package init() {}
  }
}
