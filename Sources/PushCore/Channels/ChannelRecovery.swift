/// What to do about a create whose answer nobody heard: the worker died, or the connection broke.
///
/// APNs knows no name and no idempotency key, so such a channel can only be found: it is in APNs' list and not in the
/// registry. A channel whose id nobody knows is as good as any other one of its storage policy, so that of several
/// such creates each may take any of the channels that they left behind. What cannot be distinguished from other senders'
/// channels is not taken: two events on one channel would be worse than a channel too many.
package enum ChannelRecovery: Hashable, Sendable {
  /// Another create of the same kind may still end by itself.
  case wait
  /// The create took no effect: make the channel now.
  case create
  /// The create made this channel.
  case adopt(ChannelID)
  /// There are more new channels than creates: somebody else makes channels too. Make another one, and say so.
  case undecided

  /// Channels whose storage policy is asked for; more are not looked at.
  package static let candidatesMaximum = 16

  /// - Parameters:
  ///   - candidates: channels in APNs' list that the registry does not know, of the intent's storage policy.
  ///   - intents: every unfinished create of that policy, ours among them.
  ///   - settled: since when an unfinished create cannot be carried out any more, Unix milliseconds.
  package static func decide(candidates: [ChannelID], intents: [ChannelIntent], settled: Int64) -> ChannelRecovery {
    if intents.contains(where: { $0.begunAt > settled }) { return .wait }
    guard let first = candidates.first else { return .create }
    return candidates.count <= max(1, intents.count) ? .adopt(first) : .undecided
  }
}
