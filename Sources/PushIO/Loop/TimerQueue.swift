import PushCore

/// Identifies one scheduled action, for `EventLoop.cancel`. After the action ran, it cancels nothing.
package struct TimerToken: Hashable, Sendable {
  fileprivate let slot: Int
  fileprivate let generation: UInt32
}

/// Actions by deadline: a binary heap of slots. Each slot knows its position in the heap, so a cancelled action and all that it captured
/// are released at once. Actions with equal deadlines run in the order of scheduling.
struct TimerQueue: ~Copyable {
  private struct Slot {
    var deadline = Instant.distantFuture
    var sequence: UInt64 = 0
    var generation: UInt32 = 0
    /// Index in `heap`; -1 while the slot is free.
    var place = -1
    var action: (() -> Void)?
  }

  private var slots: [Slot] = []
  private var free: [Int] = []
  private var heap: [Int] = []
  private var nextSequence: UInt64 = 0

  var count: Int { heap.count }
  var earliest: Instant? { heap.first.map { slots[$0].deadline } }
  /// Actions scheduled from here on have this sequence or a later one.
  var upcomingSequence: UInt64 { nextSequence }

  mutating func schedule(at deadline: Instant, _ action: @escaping () -> Void) -> TimerToken {
    let index: Int
    if let reused = free.popLast() {
      index = reused
    } else {
      index = slots.count
      slots.append(Slot())
    }
    slots[index].deadline = deadline
    slots[index].sequence = nextSequence
    slots[index].generation &+= 1
    slots[index].action = action
    nextSequence &+= 1
    heap.append(index)
    slots[index].place = heap.count - 1
    rise(heap.count - 1)
    return TimerToken(slot: index, generation: slots[index].generation)
  }

  /// Returns whether the action had not run yet.
  @discardableResult
  mutating func cancel(_ token: TimerToken) -> Bool {
    guard slots.indices.contains(token.slot), slots[token.slot].generation == token.generation,
      slots[token.slot].place >= 0
    else { return false }
    _ = remove(at: slots[token.slot].place)
    return true
  }

  /// Takes the earliest action that is due and was scheduled before `sequence`. So an action that schedules itself again does not block the
  /// loop.
  mutating func takeDue(at now: Instant, before sequence: UInt64) -> (() -> Void)? {
    guard let first = heap.first, slots[first].deadline <= now, slots[first].sequence < sequence else { return nil }
    return remove(at: 0)
  }

  mutating func removeAll() {
    slots.removeAll()
    free.removeAll()
    heap.removeAll()
  }

  private mutating func remove(at place: Int) -> (() -> Void)? {
    let index = heap[place]
    let last = heap.removeLast()
    if place < heap.count {
      heap[place] = last
      slots[last].place = place
      rise(place)
      sink(slots[last].place)
    }
    let action = slots[index].action
    slots[index].action = nil
    slots[index].place = -1
    free.append(index)
    return action
  }

  private func isEarlier(_ left: Int, _ right: Int) -> Bool {
    (slots[left].deadline, slots[left].sequence) < (slots[right].deadline, slots[right].sequence)
  }

  private mutating func swapPlaces(_ left: Int, _ right: Int) {
    heap.swapAt(left, right)
    slots[heap[left]].place = left
    slots[heap[right]].place = right
  }

  private mutating func rise(_ start: Int) {
    var place = start
    while place > 0 {
      let parent = (place - 1) / 2
      guard isEarlier(heap[place], heap[parent]) else { return }
      swapPlaces(place, parent)
      place = parent
    }
  }

  private mutating func sink(_ start: Int) {
    var place = start
    while true {
      var least = place
      let left = 2 * place + 1
      if left < heap.count, isEarlier(heap[left], heap[least]) { least = left }
      if left + 1 < heap.count, isEarlier(heap[left + 1], heap[least]) { least = left + 1 }
      if least == place { return }
      swapPlaces(place, least)
      place = least
    }
  }
}
