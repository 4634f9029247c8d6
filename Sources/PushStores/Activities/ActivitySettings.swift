package import PushCore

/// What is configured of activities.
package struct ActivitySettings: Sendable {
  /// Where a start's `attributes` say the activity's id; nil: nowhere, so that update tokens come for activities that apps start alone.
  package var idAttribute: ActivityIDAttribute?
  /// A state without `stale-date` is shown as old after so long; nil: never.
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
