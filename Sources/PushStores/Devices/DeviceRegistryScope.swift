import PushCore
import PushIO

/// A registry's state for one app in one environment.
final class DeviceRegistryScope {
  let scope: AppScope
  let keys: RegistryKeys
  var words = DeviceWords()
  /// To read in the next turn.
  var reading: [DeviceTransaction] = []
  /// Records that were asked for, at most.
  var recordsInFlight = 0
  /// To store in the next turn.
  var storing: [(transaction: DeviceTransaction, commit: DeviceCommit)] = []
  /// When the app was last added to the list of apps with devices.
  var announcedAt: Instant?
  /// Changes that wait for an earlier change of the same device, by device. A device without a change in progress has
  /// no entry.
  var queues: [ByteText: [DeviceTransaction]] = [:]

  init(_ scope: AppScope, prefix: String) {
    self.scope = scope
    keys = RegistryKeys(prefix: prefix, scope: scope)
  }

  func abandon() {
    (reading, storing, queues) = ([], [], [:])
  }
}
