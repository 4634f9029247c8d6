package import PushCore

/// What is known of a device of a page before its token is chosen.
package enum PageDevice: Sendable {
  /// Its record; nil: it is gone.
  case found(DeviceRecord?)
  /// An earlier delivery of the page told how it ended.
  case settled

  var record: DeviceRecord? { if case .found(let record?) = self { record } else { nil } }
}
