/// A key's value and expiry.
package struct SimulatedRedisEntry: Hashable, Sendable {
  package var value: SimulatedRedisValue
  /// Unix milliseconds by Redis' clock; nil: it does not expire.
  package var endsAt: Int64?
}

package enum SimulatedRedisValue: Hashable, Sendable {
  case string([UInt8])
  case hash(SimulatedRedisHash)
  case sortedSet(SimulatedRedisSortedSet)
  case set(SimulatedRedisSet)
}

/// Fields and values, in Redis' order: insertion order in a small hash, any other order in a large one.
package struct SimulatedRedisHash: Hashable, Sendable {
  package private(set) var fields: [[UInt8]] = []
  private var values: [[UInt8]: [UInt8]] = [:]
  /// It was once large enough to become a table, and remains one.
  private var isTable = false

  package var count: Int { fields.count }
  package subscript(field: [UInt8]) -> [UInt8]? { values[field] }

  /// Returns whether the field is new.
  mutating func set(_ field: [UInt8], _ value: [UInt8], limits: SimulatedRedisSettings) -> Bool {
    let isNew = values.updateValue(value, forKey: field) == nil
    if isNew { fields.append(field) }
    if fields.count > limits.listedFieldsMaximum || max(field.count, value.count) > limits.listedBytesMaximum {
      isTable = true
    }
    return isNew
  }

  /// Returns whether the field existed.
  mutating func remove(_ field: [UInt8]) -> Bool {
    guard values.removeValue(forKey: field) != nil else { return false }
    fields.removeAll { $0 == field }
    return true
  }

  /// Fields, in the order of HGETALL.
  func listed(seed: UInt64) -> [[UInt8]] {
    guard isTable else { return fields }
    // Redis hashes with a secret seed: any order works that is stable and not the insertion order.
    func place(_ field: [UInt8]) -> UInt64 {
      var hash = seed ^ 0xCBF2_9CE4_8422_2325
      for byte in field { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
      return hash ^ hash >> 29
    }
    return fields.map { (place($0), $0) }.sorted { $0.0 != $1.0 ? $0.0 < $1.0 : $0.1.lexicographicallyPrecedes($1.1) }
      .map(\.1)
  }
}

package struct SimulatedRedisSortedSet: Hashable, Sendable {
  private var scores: [[UInt8]: Double] = [:]

  package var count: Int { scores.count }
  package subscript(member: [UInt8]) -> Double? { scores[member] }

  /// Returns whether the member is new.
  mutating func set(_ member: [UInt8], _ score: Double) -> Bool { scores.updateValue(score, forKey: member) == nil }

  /// Returns whether the member existed.
  mutating func remove(_ member: [UInt8]) -> Bool { scores.removeValue(forKey: member) != nil }

  /// By score, then by name.
  package var listed: [(member: [UInt8], score: Double)] {
    scores.map { (member: $0.key, score: $0.value) }.sorted {
      $0.score != $1.score ? $0.score < $1.score : $0.member.lexicographicallyPrecedes($1.member)
    }
  }
}

package struct SimulatedRedisSet: Hashable, Sendable {
  private var members: Set<[UInt8]> = []
  /// It had a non-numeric member, so it became a table and remains one.
  private var isTable = false

  package var count: Int { members.count }
  package func contains(_ member: [UInt8]) -> Bool { members.contains(member) }

  /// Returns whether the member is new.
  mutating func insert(_ member: [UInt8]) -> Bool {
    if SimulatedRedisNumber.integer(member) == nil { isTable = true }
    return members.insert(member).inserted
  }

  /// Returns whether the member existed.
  mutating func remove(_ member: [UInt8]) -> Bool { members.remove(member) != nil }

  /// As in SMEMBERS: numbers ascending, anything else in a stable order.
  package var listed: [[UInt8]] {
    if isTable { return members.sorted { $0.lexicographicallyPrecedes($1) } }
    return members.sorted { (SimulatedRedisNumber.integer($0) ?? 0) < (SimulatedRedisNumber.integer($1) ?? 0) }
  }
}
