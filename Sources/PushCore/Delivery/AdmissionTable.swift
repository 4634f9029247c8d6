/// A table of at most `capacity` entries that evicts by the clock algorithm: entries used since the hand last passed stay. Expired entries
/// are removed when they are looked up, or when the hand reaches them.
package struct AdmissionTable<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  private struct Entry: Sendable {
    var key: Key
    var value: Value
    /// Milliseconds of the clock that its owner passes.
    var endsAt: Int64
    var wasUsed: Bool
  }

  package let capacity: Int
  private var positions: [Key: Int] = [:]
  private var entries: [Entry] = []
  private var hand = 0
  /// Entries that were evicted before they expired.
  package private(set) var evictedCount: UInt64 = 0

  package init(capacity: Int) {
    precondition(capacity >= 1)
    self.capacity = capacity
  }

  package var count: Int { entries.count }
  package var isEmpty: Bool { entries.isEmpty }

  package mutating func value(for key: Key, nowMilliseconds now: Int64) -> Value? {
    guard let position = positions[key] else { return nil }
    guard entries[position].endsAt > now else {
      remove(at: position)
      return nil
    }
    entries[position].wasUsed = true
    return entries[position].value
  }

  package mutating func set(_ value: Value, for key: Key, endsAt: Int64, nowMilliseconds now: Int64) {
    if let position = positions[key] {
      entries[position].value = value
      entries[position].endsAt = endsAt
      entries[position].wasUsed = true
      return
    }
    let entry = Entry(key: key, value: value, endsAt: endsAt, wasUsed: false)
    if entries.count < capacity {
      positions[key] = entries.count
      entries.append(entry)
      return
    }
    // Ends within one round: a round clears every mark.
    while entries[hand].wasUsed, entries[hand].endsAt > now {
      entries[hand].wasUsed = false
      hand = (hand + 1) % capacity
    }
    if entries[hand].endsAt > now { evictedCount += 1 }
    positions[entries[hand].key] = nil
    positions[key] = hand
    entries[hand] = entry
    hand = (hand + 1) % capacity
  }

  package mutating func removeValue(for key: Key) {
    if let position = positions[key] { remove(at: position) }
  }

  /// Removes an arbitrary entry.
  package mutating func popLast() -> (key: Key, value: Value)? {
    guard let entry = entries.last else { return nil }
    remove(at: entries.count - 1)
    return (entry.key, entry.value)
  }

  /// The last entry takes the removed one's place.
  private mutating func remove(at position: Int) {
    positions[entries[position].key] = nil
    let last = entries.removeLast()
    if position < entries.count {
      entries[position] = last
      positions[last.key] = position
    }
    if hand >= entries.count { hand = 0 }
  }
}
