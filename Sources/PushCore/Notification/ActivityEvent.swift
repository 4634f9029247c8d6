/// What a Live Activity's push does: `event` of its payload.
package enum ActivityEvent: UInt8, CaseIterable, Sendable {
  case start, update, end

  package var name: String { "\(self)" }
}
