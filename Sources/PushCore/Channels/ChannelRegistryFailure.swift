/// Why the registry did not return a channel: what was tried, where, what to do.
package enum ChannelRegistryFailure: Error, Hashable, Sendable {
  /// The name has a channel with the other storage policy, and a channel's policy never changes.
  case storageDiffers(ChannelName, ChannelID, has: StoragePolicy, wanted: StoragePolicy)
  /// `create` for a name that has a channel.
  case exists(ChannelName, ChannelID)
  /// No channel has this name.
  case unknownName(ChannelName, AppScope)
  /// The app has its maximum of channels.
  case full(AppScope, count: Int, maximum: Int)
  /// APNs did not carry it out.
  case apns(ChannelFailure)
  /// Redis did not answer, or its answer cannot be used.
  case redis(String)
  /// For longer than we wait, another worker has the name's lock or an earlier create is unresolved.
  case timedOut(ChannelName, milliseconds: Int64)

  /// The same request may succeed later without a change.
  package var isTemporary: Bool {
    switch self {
    case .storageDiffers, .exists, .unknownName, .full: false
    case .apns(let failure): failure.isTemporary
    case .redis, .timedOut: true
    }
  }
}

extension ChannelRegistryFailure: CustomStringConvertible {
  package var description: String {
    switch self {
    case .storageDiffers(let name, let id, let has, let wanted):
      """
      "\(name)" is channel \(id), whose storage policy is \(has.name), not \(wanted.name), and never changes: take \
      another name, or delete the channel first
      """
    case .exists(let name, let id):
      "\"\(name)\" is channel \(id) already: use ensure, or take another name"
    case .unknownName(let name, let scope):
      "no channel of \(scope) is named \"\(name)\": herald channels list shows the names"
    case .full(let scope, let count, let maximum):
      """
      \(scope) has \(count) of at most \(maximum) channels: delete those whose events are over (herald channels reap, \
      herald channels delete)
      """
    case .apns(let failure): failure.description
    case .redis(let text): "the channel registry in Redis cannot be used: \(text)"
    case .timedOut(let name, let milliseconds):
      """
      "\(name)" was not settled within \(milliseconds / 1000) s: another worker makes it, or an earlier create is looked \
      into; try again
      """
    }
  }
}
