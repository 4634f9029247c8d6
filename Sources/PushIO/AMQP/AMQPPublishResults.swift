/// Counts how publishes ended. Confirms come out of order and many at once.
package struct AMQPPublishResults: Equatable, Sendable {
  package private(set) var published = 0
  /// Every queue that they were routed to took them.
  package private(set) var confirmed = 0
  /// The broker refused them: a full queue, or a failure.
  package private(set) var refused = 0
  /// Routed to no queue; not counted as confirmed.
  package private(set) var returned = 0
  /// Numbers from `base` up that are not settled: true = open.
  private var open: [Bool] = []
  private var base: UInt64 = 1

  package init() {}

  package var unconfirmed: Int { published - confirmed - refused - returned }

  /// The next number was published.
  mutating func didPublish() {
    published += 1
    open.append(true)
  }

  /// A mandatory message was returned; the confirm that follows it is counted as this.
  mutating func didReturn() {
    returned += 1
    confirmed -= 1
  }

  mutating func didConfirm(_ sequence: UInt64, isMultiple: Bool) {
    confirmed += settle(sequence, isMultiple: isMultiple)
  }

  mutating func didRefuse(_ sequence: UInt64, isMultiple: Bool) {
    refused += settle(sequence, isMultiple: isMultiple)
  }

  /// The channel is gone: open publishes will not be confirmed, and numbers start again.
  mutating func channelLost() {
    refused += open.count { $0 }
    open.removeAll()
    base = 1
  }

  private mutating func settle(_ sequence: UInt64, isMultiple: Bool) -> Int {
    guard sequence >= base, sequence - base < UInt64(open.count) else { return 0 }
    let last = Int(sequence - base)
    var count = 0
    for index in (isMultiple ? 0 : last)...last where open[index] {
      open[index] = false
      count += 1
    }
    let settled = open.firstIndex(of: true) ?? open.count
    // Moved in steps, so that the array is not shifted for every confirm.
    if settled >= 256 || settled == open.count {
      open.removeFirst(settled)
      base += UInt64(settled)
    }
    return count
  }
}
