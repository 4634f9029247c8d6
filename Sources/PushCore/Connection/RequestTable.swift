/// The requests in flight of a lane, in lists by connection, each oldest first.
///
/// A request has a name of its own, given for one sending and never used again: whatever is reported late of a request that was
/// given up finds nobody, also where its job was sent again meanwhile.
///
/// All requests of a connection have the same time to be answered, so the order of sending is the order of deadlines: the
/// head of a list is the only one to look at. The lists are threaded through one array (a slot for each request)
/// rather than kept as queues: an answer takes its request out of the middle at once, so a list is never longer than what
/// is truly in flight, and nothing is allocated.
package struct RequestTable: Sendable {
  /// What is remembered of a request until it is answered.
  package struct Request: Sendable {
    /// Who gets its answer.
    package var send: Ticket
    package var sentAt: Instant
    /// The list that it is in.
    package var list: UInt16
    /// The provider token that it carried; 0 for none.
    package var tokenSerial: UInt32
    /// Which pauses concern it.
    package var pauseKey: PauseKey
    /// Which device it was for, as a hash.
    package var targetHash: UInt64

    package init(
      send: Ticket, sentAt: Instant, list: UInt16, tokenSerial: UInt32, pauseKey: PauseKey, targetHash: UInt64
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
    /// Odd while the slot is used; the next use has another.
    var generation: UInt32
    /// The next one of its list, or the next free slot.
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
  /// Lists that were given back.
  private var freeLists: [UInt16] = []
  package private(set) var count = 0

  package init() {}

  /// A new, empty list.
  package mutating func makeList() -> UInt16 {
    if let list = freeLists.popLast() { return list }
    precondition(lists.count < Int(UInt16.max), "too many connections in a lane")
    lists.append(List(first: RequestTable.none, last: RequestTable.none, count: 0))
    return UInt16(lists.count - 1)
  }

  /// Gives an empty list back: its connection is gone for good.
  package mutating func recycle(_ list: UInt16) {
    precondition(lists[Int(list)].count == 0, "a list is given back empty")
    freeLists.append(list)
  }

  package func count(of list: UInt16) -> Int { lists[Int(list)].count }

  /// When the oldest request of a list was sent.
  package func oldestSentAt(of list: UInt16) -> Instant? {
    let first = lists[Int(list)].first
    return first == RequestTable.none ? nil : slots[Int(first)].request.sentAt
  }

  /// The name of the oldest request of a list.
  package func oldest(of list: UInt16) -> Ticket? {
    let first = lists[Int(list)].first
    return first == RequestTable.none ? nil : Ticket(index: first, generation: slots[Int(first)].generation)
  }

  /// Appends a request to its list, and names it.
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

  /// Takes a request out; nil where it was taken out before (it was answered, or given up).
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
