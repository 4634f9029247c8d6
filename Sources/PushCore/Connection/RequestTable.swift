/// The requests in flight of a lane, by the ticket of their job, in lists by connection, each oldest first.
///
/// All requests of a connection have the same time to be answered, so the order of sending is the order of deadlines: the
/// head of a list is the only one to look at. The lists are threaded through one array (a slot for each ticket index)
/// rather than kept as queues: an answer takes its request out of the middle at once, so a list is never longer than what
/// is truly in flight, and nothing is allocated.
package struct RequestTable: Sendable {
  /// What is remembered of a request until it is answered.
  package struct Request: Sendable {
    package var ticket: Ticket
    package var sentAt: Instant
    /// The list that it is in.
    package var list: UInt16
    /// The provider token that it carried; 0 for none.
    package var tokenSerial: UInt32
    /// Which topic it was for, as a hash.
    package var topicHash: UInt64
    /// Which device it was for, as a hash.
    package var targetHash: UInt64
    /// Its time is over and its stream is being cancelled: what is told of it now means that.
    package fileprivate(set) var isTimedOut = false

    package init(
      ticket: Ticket, sentAt: Instant, list: UInt16, tokenSerial: UInt32, topicHash: UInt64, targetHash: UInt64
    ) {
      self.ticket = ticket
      self.sentAt = sentAt
      self.list = list
      self.tokenSerial = tokenSerial
      self.topicHash = topicHash
      self.targetHash = targetHash
    }
  }

  private struct Slot {
    var request: Request
    var next: UInt32
    var previous: UInt32
    var isUsed: Bool
  }

  private struct List {
    var first: UInt32
    var last: UInt32
    var count: Int
  }

  private static let none = UInt32.max

  private var slots: [Slot] = []
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

  /// The oldest request of a list.
  package func oldest(of list: UInt16) -> Request? {
    let first = lists[Int(list)].first
    return first == RequestTable.none ? nil : slots[Int(first)].request
  }

  /// Appends a request to its list. A ticket has one request at a time.
  package mutating func insert(_ request: Request) {
    let index = Int(request.ticket.index)
    if index >= slots.count { grow(to: index + 1) }
    precondition(!slots[index].isUsed, "a ticket has one request at a time")
    let list = Int(request.list)
    let last = lists[list].last
    slots[index].request = request
    slots[index].next = RequestTable.none
    slots[index].previous = last
    slots[index].isUsed = true
    if last == RequestTable.none {
      lists[list].first = UInt32(index)
    } else {
      slots[Int(last)].next = UInt32(index)
    }
    lists[list].last = UInt32(index)
    lists[list].count += 1
    count += 1
  }

  /// Takes a request out; nil where the ticket has none (it was answered, or ended by its deadline).
  package mutating func remove(_ ticket: Ticket) -> Request? {
    let index = Int(ticket.index)
    guard index < slots.count, slots[index].isUsed, slots[index].request.ticket == ticket else { return nil }
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
    slots[index].isUsed = false
    lists[list].count -= 1
    count -= 1
    return slot.request
  }

  private mutating func grow(to needed: Int) {
    let empty = Slot(
      request: Request(
        ticket: Ticket(index: 0, generation: 0), sentAt: Instant(nanoseconds: 0), list: 0, tokenSerial: 0, topicHash: 0,
        targetHash: 0),
      next: RequestTable.none, previous: RequestTable.none, isUsed: false)
    let size = max(needed, slots.count * 2, 256)
    slots.reserveCapacity(size)
    while slots.count < size { slots.append(empty) }
  }
}
