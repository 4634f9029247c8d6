package import PushCore
package import PushIO

/// The channels of a connection that publishes: one in use, and the one before, which may still confirm what went out on it.
///
/// A sequence number increases over all of them, so that what is published can move to a fresh channel at any time.
package struct RabbitMQPublishChannels {
  /// One is in use; the others take its place, and are closed.
  private static let numbers: [UInt16] = [1, 3, 4]

  /// Where to publish.
  package private(set) var channel = RabbitMQPublishChannels.numbers[0]
  package private(set) var sequence = PublishSequence()
  private var leaving: (channel: UInt16, sequence: PublishSequence)?
  /// The last operation that opens a fresh channel, and that channel.
  private var opening: (operation: UInt32, channel: UInt16)?

  package init() {}

  /// What opens the first one.
  package static var setUp: [(operation: AMQPOperation, channel: UInt16)] {
    [(.openChannel, numbers[0]), (.selectConfirms, numbers[0])]
  }

  /// A new connection.
  package mutating func restart() {
    sequence.restart()
    channel = RabbitMQPublishChannels.numbers[0]
    (leaving, opening) = (nil, nil)
  }

  /// The sequence number of a publish that is made now.
  package mutating func take() -> UInt64 { sequence.take() }

  /// The sequence numbers that a confirm or refusal on a channel settles; nil: none, or it was returned.
  package mutating func settled(_ number: UInt64, isMultiple: Bool, _ channel: UInt16) -> ClosedRange<UInt64>? {
    if channel == self.channel { return sequence.settled(number, isMultiple: isMultiple) }
    guard channel == leaving?.channel else { return nil }
    return leaving?.sequence.settled(number, isMultiple: isMultiple)
  }

  /// false: there is no such publish.
  package mutating func markReturned(_ number: UInt64) -> Bool {
    sequence.markReturned(number) || leaving?.sequence.markReturned(number) == true
  }

  /// Opens a fresh channel; what is published moves there once it is open. The channel before the present one is closed. Returns the
  /// numbers of that one, some of which may never have been confirmed.
  package mutating func renew(on connection: AMQPConnection) -> ClosedRange<UInt64>? {
    let fresh = RabbitMQPublishChannels.numbers.first {
      $0 != channel && $0 != leaving?.channel && connection.canOpen(channel: $0)
    }
    guard opening == nil, let fresh else { return nil }
    connection.request(.openChannel, channel: fresh)
    opening = (connection.request(.selectConfirms, channel: fresh), fresh)
    guard let (old, sequence) = leaving else { return nil }
    leaving = nil
    connection.request(.closeChannel, channel: old)
    return sequence.all
  }

  /// An operation was answered. true: it opened the fresh channel, where to publish from now on.
  package mutating func answered(_ operation: UInt32) -> Bool {
    guard let opening, opening.operation == operation else { return false }
    leaving = (channel, sequence)
    sequence.restart()
    (channel, self.opening) = (opening.channel, nil)
    return true
  }
}
