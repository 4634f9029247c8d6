/// How far the expansion of an audience came: what the message of its next step carries, so that the step can be done even where Redis
/// forgot what was before.
package struct ExpansionCursor: Hashable, Sendable {
  /// From 0 on.
  package var step: UInt32
  /// Devices before this ordinal are in pages.
  package var ordinal: UInt32
  /// Pages and devices of the steps before.
  package var pages: UInt32
  package var devices: UInt64

  package init(step: UInt32 = 0, ordinal: UInt32 = 0, pages: UInt32 = 0, devices: UInt64 = 0) {
    self.step = step
    self.ordinal = ordinal
    self.pages = pages
    self.devices = devices
  }

  /// `2:65280:40:19874`.
  package var text: String { "\(step):\(ordinal):\(pages):\(devices)" }

  /// nil: it is none that a step writes.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 4, let step = UInt32(parts[0]), let ordinal = UInt32(parts[1]), let pages = UInt32(parts[2]),
      let devices = UInt64(parts[3])
    else { return nil }
    self.init(step: step, ordinal: ordinal, pages: pages, devices: devices)
  }
}
