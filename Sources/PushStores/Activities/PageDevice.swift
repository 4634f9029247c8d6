package import PushCore

/// What is known of a device of a page before its token is chosen.
package enum PageDevice: Sendable {
  /// Its record; nil: it is gone.
  case found(DeviceRecord?)
  /// It is gone, and another device has its ordinal.
  case forgotten
  /// Another copy of the page told how it ended.
  case settled
  /// The same, and the outcome of this copy is asked for. `isUnsent`: the other one may have sent nothing.
  case asked(DeviceRecord, isUnsent: Bool)
}
