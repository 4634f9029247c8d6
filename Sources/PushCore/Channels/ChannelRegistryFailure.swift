/// Why the registry did not give a channel: what was tried, on what, what to do.
package enum ChannelRegistryFailure: Error, Hashable, Sendable {
  /// The name has a channel, of the other storage policy, which never changes.
  case storageDiffers(ChannelName, ChannelID, has: StoragePolicy, wanted: StoragePolicy)
  /// `create` of a name that has a channel.
  case exists(ChannelName, ChannelID)
  /// Nobody made a channel of this name.
  case unknownName(ChannelName, AppScope)
  /// The app has as many channels as it may have.
  case full(AppScope, count: Int, maximum: Int)
  /// APNs did not do it.
  case apns(ChannelFailure)
  /// Redis did not answer, or not as it should.
  case redis(String)
  /// Another worker has the name's lock, or an earlier create is being looked into, for longer than we wait.
  case timedOut(ChannelName, milliseconds: Int64)

  /// The same request may succeed later, as it is.
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
