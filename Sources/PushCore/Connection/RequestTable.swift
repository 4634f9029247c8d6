/// A lane's requests in flight, in one list per connection, oldest first.
///
/// Each request has a unique name that is never reused. So a late report about a request that was given up finds nothing, even if its job
/// was sent again.
///
/// All requests of a connection have the same timeout, so the order of sending is the order of deadlines, and only the head of a list is
/// checked. The lists are linked through one array (a slot for each request) instead of separate queues: an answer removes its request from
/// the middle at once, a list is never longer than what is in flight, and nothing is allocated.
package struct RequestTable: Sendable {
  /// What is kept about a request until it is answered.
  package struct Request: Sendable {
    /// Receives the answer.
    package var send: Ticket
    package var sentAt: Instant
    /// The list that it is in.
    package var list: UInt32
    /// The provider token that it carried; 0 for none.
    package var tokenSerial: UInt32
    /// Identifies the pauses that apply to it.
    package var pauseKey: PauseKey
    /// A hash of its device.
    package var targetHash: UInt64

    package init(
      send: Ticket, sentAt: Instant, list: UInt32, tokenSerial: UInt32, pauseKey: PauseKey, targetHash: UInt64
    ) {
      self.send = send
      self.sentAt = sentAt
      self.list = list
      self.tokenSerial = tokenSerial
      self.pauseKey = pauseKey
      self.targetHash = targetHash
    }
  }

  private struct Slot {
    var request: Request
    /// Odd while the slot is in use; different for each use.
    var generation: UInt32
    /// The next request of its list, or the next free slot.
    var next: UInt32
    var previous: UInt32
  }

  private struct List {
    var first: UInt32
    var last: UInt32
    var count: Int
  }

  private static let none = UInt32.max

  private var slots: [Slot] = []
  private var firstFree = RequestTable.none
  private var lists: [List] = []
  /// Lists for reuse.
  private var freeLists: [UInt32] = []
  package private(set) var count = 0

  package init() {}

  /// A new, empty list.
  package mutating func makeList() -> UInt32 {
    if let list = freeLists.popLast() { return list }
    lists.append(List(first: RequestTable.none, last: RequestTable.none, count: 0))
    return UInt32(lists.count - 1)
  }

  /// Returns an empty list for reuse, after its connection ended.
  package mutating func recycle(_ list: UInt32) {
    precondition(lists[Int(list)].count == 0, "a list is given back empty")
    freeLists.append(list)
  }

  package func count(of list: UInt32) -> Int { lists[Int(list)].count }

  /// When the oldest request of a list was sent.
  package func oldestSentAt(of list: UInt32) -> Instant? {
    let first = lists[Int(list)].first
    return first == RequestTable.none ? nil : slots[Int(first)].request.sentAt
  }

  /// The name of the oldest request of a list.
  package func oldest(of list: UInt32) -> Ticket? {
    let first = lists[Int(list)].first
    return first == RequestTable.none ? nil : Ticket(index: first, generation: slots[Int(first)].generation)
  }

  /// Appends a request to its list. Returns its name.
  package mutating func insert(_ request: Request) -> Ticket {
    if firstFree == RequestTable.none { grow(like: request) }
    let index = Int(firstFree)
    firstFree = slots[index].next
    let list = Int(request.list)
    let last = lists[list].last
    slots[index].request = request
    slots[index].generation &+= 1
    slots[index].next = RequestTable.none
    slots[index].previous = last
    if last == RequestTable.none {
      lists[list].first = UInt32(index)
    } else {
      slots[Int(last)].next = UInt32(index)
    }
    lists[list].last = UInt32(index)
    lists[list].count += 1
    count += 1
    return Ticket(index: UInt32(index), generation: slots[index].generation)
  }

  /// Removes a request; nil if it was removed before (answered or given up).
  package mutating func remove(_ name: Ticket) -> Request? {
    let index = Int(name.index)
    guard index < slots.count, name.generation & 1 == 1, slots[index].generation == name.generation else { return nil }
    let slot = slots[index]
    let list = Int(slot.request.list)
    if slot.previous == RequestTable.none {
      lists[list].first = slot.next
    } else {
      slots[Int(slot.previous)].next = slot.next
    }
    if slot.next == RequestTable.none {
      lists[list].last = slot.previous
    } else {
      slots[Int(slot.next)].previous = slot.previous
    }
    slots[index].generation &+= 1
    slots[index].next = firstFree
    firstFree = name.index
    lists[list].count -= 1
    count -= 1
    return slot.request
  }

  private mutating func grow(like request: Request) {
    let size = max(slots.count * 2, 256)
    slots.reserveCapacity(size)
    let start = slots.count
    for index in start..<size {
      let next = index + 1 < size ? UInt32(index + 1) : RequestTable.none
      slots.append(Slot(request: request, generation: 0, next: next, previous: RequestTable.none))
    }
    firstFree = UInt32(start)
  }
}
