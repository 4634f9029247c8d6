/// What may be wrong with a valid job of an activity.
package enum ActivityWarning: Hashable, Sendable {
  /// A device without contact shows such a state as if it were current.
  case noStaleDate
  /// The start names a channel of the producer's: its devices get no update tokens, and Herald does not broadcast on that channel.
  case ownChannel

  /// For people: what is wrong, and what to do.
  package var text: String {
    switch self {
    case .noStaleDate:
      """
      jobs without stale-date: a device that loses contact shows its last state as if it were true; set stale-date, or \
      activities.default_stale_after_s
      """
    case .ownChannel:
      """
      starts with an input-push-channel of their own: updates by the activity's id do not reach these devices; send them to that \
      channel, or leave it out
      """
    }
  }
}
