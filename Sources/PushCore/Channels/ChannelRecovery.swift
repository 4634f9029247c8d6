/// Decides about a create whose answer was lost, because the worker died or the connection broke.
///
/// APNs has no names and no idempotency keys, so such a channel can only be found: it is in APNs' list, was not there before, and the registry
/// does not know it. Unknown channels of one storage policy are interchangeable: each of several lost creates may adopt any channel that they
/// left behind. A channel that may be another's is not adopted, because two events on one channel would be worse than an unused channel: one
/// that the registry does not know may have had its name in a Redis that lost its latest writes. An activity adopts none.
package enum ChannelRecovery: Hashable, Sendable {
  /// Another create of the same policy may still finish.
  case wait
  /// The create had no effect: create the channel now.
  case create
  /// The create made this channel.
  case adopt(ChannelID)
  /// There are more new channels than lost creates, so another sender creates channels too. Create one, and warn.
  case undecided

  /// At most this many candidates' storage policies are asked for.
  package static let candidatesMaximum = 16

  /// - Parameters:
  ///   - candidates: channels in APNs' list that the registry does not know, and that were not there before, of the intent's storage policy.
  ///   - intents: every unfinished create of that policy, including ours.
  ///   - settled: creates that were begun before this time, Unix milliseconds, can no longer be carried out.
  package static func decide(candidates: [ChannelID], intents: [ChannelIntent], settled: Int64) -> ChannelRecovery {
    if intents.contains(where: { $0.begunAt > settled }) { return .wait }
    // Prefers one that the others cannot have made: it was there before them.
    let before = intents.compactMap { $0.before.map { Set($0) } }
    let foreign = { (id: ChannelID) in before.count { $0.contains(id) } }
    guard let best = candidates.max(by: { foreign($0) < foreign($1) }) else { return .create }
    return candidates.count <= max(1, intents.count) ? .adopt(best) : .undecided
  }
}
