import PushCore
import PushIO

/// What a registry knows, and has under way, of one app in one environment.
final class DeviceRegistryScope {
  let scope: AppScope
  let keys: RegistryKeys
  var words = DeviceWords()
  /// To be read with the next turn.
  var reading: [DeviceTransaction] = []
  /// To be stored with the next turn.
  var storing: [(transaction: DeviceTransaction, commit: DeviceCommit)] = []
  /// When it was told last that this app has devices.
  var announcedAt: Instant?
  /// By device: what waits until the change before it is made. A device whose changes are all made has no entry.
  var queues: [String: [DeviceTransaction]] = [:]

  init(_ scope: AppScope, prefix: String) {
    self.scope = scope
    keys = RegistryKeys(prefix: prefix, scope: scope)
  }
}
