/// Apple's limit of channels for an app and environment, and when to warn of it.
package struct ChannelLimit: Hashable, Sendable {
  /// How many channels Apple lets an app have in an environment.
  package static let apple = 10_000

  package let maximum: Int

  /// From this number on, warn: 80 %.
  package var warning: Int { maximum / 5 * 4 }

  package init(maximum: Int = ChannelLimit.apple) {
    precondition(maximum > 0, "a limit is above zero")
    self.maximum = maximum
  }

  package enum Level: Hashable, Sendable {
    case fine
    /// From 80 % on.
    case near
    case full
  }

  package func level(_ count: Int) -> Level {
    count >= maximum ? .full : count >= warning ? .near : .fine
  }
}
