/// The progress of an audience's expansion. The message of the next step carries it, so that the step can continue even
/// if Redis lost the earlier state.
package struct ExpansionCursor: Hashable, Sendable {
  /// From 0.
  package var step: UInt32
  /// All devices before this ordinal are in pages.
  package var ordinal: UInt32
  /// Pages and devices of the earlier steps.
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

  /// The most steps and pages that a text names: an audience of every ordinal has far fewer.
  private static let countMaximum: UInt32 = 1 << 30
  private static let devicesMaximum: UInt64 = 1 << 53

  /// nil: not written by a step.
  package init?(_ text: String) {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 4, let step = UInt32(parts[0]), let ordinal = UInt32(parts[1]), let pages = UInt32(parts[2]),
      let devices = UInt64(parts[3]), max(step, pages) <= ExpansionCursor.countMaximum,
      devices <= ExpansionCursor.devicesMaximum
    else { return nil }
    self.init(step: step, ordinal: ordinal, pages: pages, devices: devices)
  }
}
