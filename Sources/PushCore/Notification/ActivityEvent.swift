/// The `event` of a Live Activity's payload.
package enum ActivityEvent: UInt8, CaseIterable, Sendable {
  case start, update, end

  package var name: String { "\(self)" }
}
