/// A Lua 5.1 table with string keys, in Lua's iteration order: that of its hash table, which depends on the insertions.
struct SimulatedLuaTable<Value> {
  private struct Node {
    var key: [UInt8]?
    var value: Value?
    var next: Int?
  }

  private var nodes: [Node] = []
  /// Nodes from here on are, or were, occupied.
  private var lastFree = 0

  subscript(key: [UInt8]) -> Value? {
    var at: Int? = nodes.isEmpty ? nil : place(of: key)
    while let index = at {
      if nodes[index].key == key { return nodes[index].value }
      at = nodes[index].next
    }
    return nil
  }

  var isEmpty: Bool { nodes.allSatisfy { $0.value == nil } }

  /// In the order of `pairs`.
  var pairs: [(key: [UInt8], value: Value)] {
    nodes.compactMap { node in
      if let key = node.key, let value = node.value { (key, value) } else { nil }
    }
  }

  mutating func set(_ key: [UInt8], _ value: Value) {
    var at: Int? = nodes.isEmpty ? nil : place(of: key)
    while let index = at {
      if nodes[index].key == key {
        nodes[index].value = value
        return
      }
      at = nodes[index].next
    }
    add(key, value)
  }

  private mutating func add(_ key: [UInt8], _ value: Value) {
    guard !nodes.isEmpty else { return grow(with: key, value) }
    var main = place(of: key)
    if let occupant = nodes[main].key {
      var free: Int?
      while lastFree > 0, free == nil {
        lastFree -= 1
        if nodes[lastFree].key == nil { free = lastFree }
      }
      guard let free else { return grow(with: key, value) }
      let its = place(of: occupant)
      if its != main {
        // The occupant is not in its main position: it moves.
        var before = its
        while let next = nodes[before].next, next != main { before = next }
        nodes[before].next = free
        nodes[free] = nodes[main]
        nodes[main] = Node()
      } else {
        nodes[free].next = nodes[main].next
        nodes[main].next = free
        main = free
      }
    }
    nodes[main].key = key
    nodes[main].value = value
  }

  private mutating func grow(with key: [UInt8], _ value: Value) {
    let old = nodes
    let used = old.count { $0.key != nil } + 1
    var size = 1
    while size < used { size *= 2 }
    nodes = Array(repeating: Node(), count: size)
    lastFree = size
    for node in old.reversed() {
      if let key = node.key, let value = node.value { set(key, value) }
    }
    set(key, value)
  }

  private func place(of key: [UInt8]) -> Int {
    var hash = UInt32(truncatingIfNeeded: key.count)
    let step = (key.count >> 5) + 1
    var at = key.count
    while at >= step {
      hash ^= (hash << 5) &+ (hash >> 2) &+ UInt32(key[at - 1])
      at -= step
    }
    return Int(hash) & (nodes.count - 1)
  }
}
