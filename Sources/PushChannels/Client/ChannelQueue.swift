/// Calls that wait, first come first served; those that were sent before go to the front.
struct ChannelQueue {
  private var items: [ChannelCall?] = []
  private var head = 0

  var count: Int { items.count - head }
  var first: ChannelCall? { head < items.count ? items[head] : nil }

  mutating func append(_ call: ChannelCall) {
    items.append(call)
  }

  mutating func prepend(_ call: ChannelCall) {
    if head > 0 {
      head -= 1
      items[head] = call
    } else {
      items.insert(call, at: 0)
    }
  }

  /// All of them; none waits any more.
  mutating func takeAll() -> [ChannelCall] {
    let all = items[head...].compactMap { $0 }
    items.removeAll(keepingCapacity: true)
    head = 0
    return all
  }

  mutating func popFirst() -> ChannelCall? {
    guard head < items.count else { return nil }
    let call = items[head].take()
    head += 1
    if head == items.count {
      items.removeAll(keepingCapacity: true)
      head = 0
    }
    return call
  }
}
