/// A registration's time, against those of the changes that are known.
///
/// The later time wins. But a known time in the future (from an app's server with a wrong clock) yields to a present
/// one: otherwise the device would ignore changes until then, and could not be forgotten. The present ends in a minute:
/// clocks differ by less.
struct RegistrationTime {
  enum Order {
    case older, same, newer
  }

  /// Unix milliseconds.
  let at: Int64
  /// Unix milliseconds.
  let now: Int64

  /// - Parameter known: nil: nothing is known.
  func order(to known: Int64?) -> Order {
    guard let known else { return .newer }
    if known == at { return .same }
    let (end, isOver) = now.addingReportingOverflow(DeviceLimits.aheadToleranceMilliseconds)
    let isKnownTooEarly = !isOver && known > end && at <= end
    return known > at && !isKnownTooEarly ? .older : .newer
  }

  func isOlder(than known: Int64?) -> Bool { order(to: known) == .older }
  func isNewer(than known: Int64?) -> Bool { order(to: known) == .newer }
  /// Whether a forget of this time forgets what came at that one.
  func covers(_ known: Int64) -> Bool { order(to: known) != .older }

  /// Removes a field that is not later, as if it had never been registered.
  func forget<Value>(_ field: inout Value?, _ known: inout Int64?) {
    guard !isOlder(than: known) else { return }
    field = nil
    known = nil
  }

  /// Changes a field and its time. Of two changes with the same time, a removal wins, else the larger value: the result
  /// does not depend on which came first.
  func change<Value>(
    _ field: inout Value?, _ known: inout Int64?, _ change: FieldChange<Value>, isLess: (Value, Value) -> Bool
  ) {
    let order = order(to: known)
    switch change {
    case .keep:
      return
    case .remove:
      guard order != .older else { return }
      field = nil
    case .set(let value):
      guard order != .older else { return }
      if order == .same {
        guard let field, isLess(field, value) else { return }
      }
      field = value
    }
    known = at
  }
}
