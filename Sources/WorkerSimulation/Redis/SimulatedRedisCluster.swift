import LuaInterpreter

/// The nodes of a Redis Cluster and the slots' owners: the actual state, and each node's view of it.
///
/// Slots migrate between nodes, replicas take over from masters, and some nodes may learn of both late.
package final class SimulatedRedisCluster {
  package let nodes: [SimulatedRedis]
  /// By node: the master that it replicates; nil: it is a master.
  package private(set) var primaries: [Int?]
  /// No node serves keys.
  package var isDown = false

  /// By slot: the owner's index, or `noOwner`.
  private var owners: [UInt8]
  /// By node: the owners as the node knows them.
  private var beliefs: [[UInt8]]
  /// By slot: its migration's source and target.
  private var moving: [Int: (from: Int, to: Int)] = [:]
  private static let noOwner = UInt8.max

  /// - Parameters:
  ///   - settings: one for each node; hosts and ports must differ.
  ///   - masterCount: this many nodes, from the first on, share the slots; the others are assigned to them as replicas in turn.
  package init(settings: [SimulatedRedisSettings], masterCount: Int, seed: UInt64) {
    precondition(masterCount > 0 && masterCount <= settings.count && settings.count < Int(Self.noOwner))
    nodes = settings.enumerated().map { SimulatedRedis(settings: $1, seed: seed &+ UInt64($0) &* 0x9E37_79B9) }
    primaries = settings.indices.map { $0 < masterCount ? nil : ($0 - masterCount) % masterCount }
    let owners = (0..<SimulatedRedisSlot.count).map { UInt8($0 * masterCount / SimulatedRedisSlot.count) }
    self.owners = owners
    beliefs = settings.map { _ in owners }
    for index in nodes.indices {
      nodes[index].join(self, as: index)
      if let primary = primaries[index] { nodes[index].follow(nodes[primary]) }
    }
  }

  /// The node that owns the slot; nil: none.
  package func owner(of slot: Int) -> Int? { owners[slot] == Self.noOwner ? nil : Int(owners[slot]) }

  // MARK: - Slots

  /// Starts to migrate the slot: new keys go to the target, existing ones stay until `moveKeys`.
  package func beginMove(of slot: Int, to target: Int) {
    guard let from = owner(of: slot), from != target else { return }
    moving[slot] = (from, target)
  }

  /// Migrates up to `count` keys of the slot, in byte order. Returns how many are left.
  @discardableResult
  package func moveKeys(of slot: Int, count: Int, now: Int64) -> Int {
    guard let (from, to) = moving[slot] else { return 0 }
    let source = nodes[from]
    let target = nodes[to]
    source.turn(now: now)
    target.turn(now: now)
    let keys = source.keyspace.keys(0).filter { SimulatedRedisSlot.of($0) == slot }
    for key in keys.prefix(count) {
      target.keyspace.write(source.keyspace.entry(key, 0), at: key, 0)
      source.keyspace.write(nil, at: key, 0)
    }
    return max(0, keys.count - count)
  }

  /// Gives the slot to its new owner. `informing`: nodes that learn of it at once, in addition to source and target; nil: all.
  package func endMove(of slot: Int, informing informed: [Int]? = nil, now: Int64) {
    guard let (from, to) = moving[slot] else { return }
    moveKeys(of: slot, count: .max, now: now)
    moving[slot] = nil
    owners[slot] = UInt8(to)
    for node in nodes.indices where informed?.contains(node) ?? true || node == from || node == to {
      beliefs[node][slot] = UInt8(to)
    }
  }

  /// Takes the slot from its owner; its keys are lost.
  package func abandon(_ slot: Int, now: Int64) {
    if let owner = owner(of: slot) {
      nodes[owner].turn(now: now)
      for key in nodes[owner].keyspace.keys(0) where SimulatedRedisSlot.of(key) == slot {
        nodes[owner].keyspace.write(nil, at: key, 0)
      }
    }
    moving[slot] = nil
    owners[slot] = Self.noOwner
    for node in nodes.indices { beliefs[node][slot] = Self.noOwner }
  }

  /// Promotes a replica, without its master's writes of the last `nanoseconds`. `informing`: nodes that learn of it at once,
  /// in addition to the replica; nil: all. A master that does not know goes on as a master until `spread`.
  package func failOver(to replica: Int, forgetting nanoseconds: Int64, informing informed: [Int]? = nil, now: Int64) {
    guard let master = primaries[replica] else { return }
    let server = nodes[replica]
    server.takeOver(keyspace: nodes[master].keyspace.copy(forgetting: nanoseconds, now: now))
    primaries[replica] = nil
    for node in nodes.indices where primaries[node] == master || node == master { primaries[node] = replica }
    for slot in owners.indices where owners[slot] == UInt8(master) { owners[slot] = UInt8(replica) }
    for (slot, ends) in moving where ends.from == master || ends.to == master { moving[slot] = nil }
    for node in nodes.indices where informed?.contains(node) ?? true || node == replica { learn(node) }
  }

  /// All nodes learn the actual state.
  package func spread() { for node in nodes.indices { learn(node) } }

  private func learn(_ node: Int) {
    beliefs[node] = owners
    if let primary = primaries[node] { nodes[node].follow(nodes[primary]) }
  }

  // MARK: - Answers

  /// The error of a node for keys that it does not serve now; nil: it serves them.
  func redirect(_ keys: [[UInt8]], isAsking: Bool, from server: SimulatedRedis) -> SimulatedRedisReply? {
    let slot = SimulatedRedisSlot.of(keys[0])
    for key in keys.dropFirst() where SimulatedRedisSlot.of(key) != slot {
      return .error("CROSSSLOT Keys in request don't hash to the same slot")
    }
    let node = server.node
    let owner = beliefs[node][slot]
    if owner == Self.noOwner { return .error("CLUSTERDOWN Hash slot not served") }
    if isDown { return .error("CLUSTERDOWN The cluster is down") }
    let move = moving[slot]
    func missing() -> Int { keys.count { server.keyspace.entry($0, 0) == nil } }
    if Int(owner) == node {
      guard let move, move.from == node else { return nil }
      let count = missing()
      if count == 0 { return nil }
      if count < keys.count { return .error(Self.tryAgain) }
      return .error("ASK \(slot) \(address(move.to))")
    }
    if let move, move.to == node, isAsking {
      return keys.count > 1 && missing() > 0 ? .error(Self.tryAgain) : nil
    }
    return .error("MOVED \(slot) \(address(Int(owner)))")
  }

  private static let tryAgain = "TRYAGAIN Multiple keys request during rehashing of slot"

  private func address(_ node: Int) -> String { "\(nodes[node].settings.host):\(nodes[node].settings.port)" }

  /// `CLUSTER SLOTS`, as the node knows them.
  func slots(for server: SimulatedRedis) -> SimulatedRedisReply {
    let table = beliefs[server.node]
    var ranges: [SimulatedRedisReply] = []
    var first = 0
    while first < table.count {
      var last = first
      while last + 1 < table.count, table[last + 1] == table[first] { last += 1 }
      if table[first] != Self.noOwner {
        let owner = Int(table[first])
        let others = nodes.indices.filter { primaries[$0] == owner }
        ranges.append(
          .array([.integer(Int64(first)), .integer(Int64(last))] + ([owner] + others).map(describe)))
      }
      first = last + 1
    }
    return .array(ranges)
  }

  private func describe(_ node: Int) -> SimulatedRedisReply {
    let settings = nodes[node].settings
    let name = RedisLuaDigest.text(of: Array("\(settings.host):\(settings.port)".utf8))
    return .array([
      .bulk(Array(settings.host.utf8)), .integer(Int64(settings.port)), .bulk(name), .array([]),
    ])
  }
}
