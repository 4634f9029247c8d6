package import PushCore

/// The configuration of activities.
package struct ActivitySettings: Sendable {
  /// The place of the activity's id in a start's `attributes`; nil: none, so that update tokens only come for
  /// activities that apps start themselves.
  package var idAttribute: ActivityIDAttribute?
  /// A state without `stale-date` is shown as stale after this time; nil: never.
  package var staleAfterSeconds: Int64?
  /// A start for more devices than this that can have one takes a broadcast channel; nil: none does.
  package var channelAbove: Int?

  package init(
    idAttribute: ActivityIDAttribute? = nil, staleAfterSeconds: Int64? = nil, channelAbove: Int? = nil
  ) {
    self.idAttribute = idAttribute
    self.staleAfterSeconds = staleAfterSeconds
    self.channelAbove = channelAbove
  }
}
