package import PushCore

/// What is known about a Redis Cluster: its nodes, the owners of its slots, and when to query again. No I/O.
///
/// A node keeps its number until `forget`, so commands that wait for a node are never attributed to another one. Only call `forget` if no
/// commands wait for the node; then another node may get its number. The number of nodes is bounded.
package struct RedisClusterState: Sendable {
  /// Where an error reply redirects a command.
  package enum Redirect: Hashable, Sendable {
    /// The slot's new owner, from now on.
    case moved(node: Int)
    /// Only this time: the slot is being migrated there.
    case ask(node: Int)
    /// Later: the slot is being migrated, or its owner is being replaced.
    case later
  }

  /// A CLUSTER SLOTS query in flight to a node.
  private struct Question {
    let node: Int
    /// After this time another node is queried; the answer is still read.
    let deadline: Instant
    /// The answer to a later query is known: this one's does not count.
    var isOutdated = false
  }

  package static let nodesMaximum = 256
  private static let refreshMilliseconds: Int64 = 60_000
  private static let hurriedMilliseconds: Int64 = 250
  private static let answerMilliseconds: Int64 = 1_000

  /// By number, configured nodes first; nil: forgotten, the number is free.
  package private(set) var nodes: [RedisConfiguration.Address?]
  /// Configured nodes have the numbers below this, permanently.
  package let seedCount: Int
  /// A node without slots is kept for this long after it was last named.
  private let spareMilliseconds: Int64
  /// By slot: its owner's number; -1: unknown.
  private var owners: [Int16]
  /// By number: how many slots the node owns.
  private var slotCounts: [Int]
  /// By number: when the node was last named as one to talk to.
  private var namedAt: [Instant]
  /// When the table is queried again.
  private var refreshAt = Instant(nanoseconds: .min)
  /// Oldest first; each node has at most one query in flight.
  private var questions: [Question] = []
  private var nextAsked = 0

  package init(seeds: [RedisConfiguration.Address], spareMilliseconds: Int64 = 10_000) {
    nodes = seeds
    self.spareMilliseconds = spareMilliseconds
    seedCount = seeds.count
    owners = Array(repeating: -1, count: RedisSlot.count)
    slotCounts = Array(repeating: 0, count: seeds.count)
    namedAt = Array(repeating: Instant(nanoseconds: .min), count: seeds.count)
  }

  /// Every slot has an owner.
  package private(set) var isKnown = false

  /// The slot's owner; if it is unknown, any node, which will answer with a redirect.
  package func owner(of slot: Int) -> Int { max(0, Int(owners[slot])) }

  /// Numbers of the nodes that own slots, ascending.
  package private(set) var ownerNumbers: [Int] = []

  package func isOwner(_ node: Int) -> Bool { slotCounts[node] > 0 }

  /// It owns no slots and was not named for a while: nobody will send it anything.
  package func isSpare(_ node: Int, now: Instant) -> Bool {
    isKnown && nodes[node] != nil && slotCounts[node] == 0
      && now >= namedAt[node].adding(milliseconds: spareMilliseconds)
  }

  /// Keeps the node for a longer time.
  package mutating func name(_ node: Int, now: Instant) { namedAt[node] = now }

  /// Frees the number of a spare node for which no commands wait. Configured nodes keep theirs.
  package mutating func forget(_ node: Int) {
    precondition(node >= seedCount && slotCounts[node] == 0, "node \(node) is in use")
    questions.removeAll { $0.node == node }
    nodes[node] = nil
  }

  /// The node to query with CLUSTER SLOTS now; nil: none. `isReady` says whether a node is connected.
  package mutating func nodeToAsk(now: Instant, isReady: (Int) -> Bool) -> Int? {
    guard now >= refreshAt, questions.last.map({ now >= $0.deadline }) ?? true else { return nil }
    for offset in 0..<nodes.count {
      let node = (nextAsked + offset) % nodes.count
      guard nodes[node] != nil, isReady(node), !questions.contains(where: { $0.node == node }) else { continue }
      let deadline = now.adding(milliseconds: RedisClusterState.answerMilliseconds)
      questions.append(Question(node: node, deadline: deadline))
      nextAsked = node + 1
      return node
    }
    return nil
  }

  /// The table may be outdated: query it soon. Not at once: while all nodes start, each of them refuses.
  package mutating func doubt(now: Instant) {
    refreshAt = min(refreshAt, now.adding(milliseconds: RedisClusterState.hurriedMilliseconds))
  }

  /// A node's answer to CLUSTER SLOTS; nil: none will come. Returns whether all slots have an owner now.
  @discardableResult
  package mutating func learned(_ reply: RedisReply?, from node: Int, now: Instant) -> Bool {
    guard let index = questions.firstIndex(where: { $0.node == node }) else { return isKnown }
    let question = questions.remove(at: index)
    if question.isOutdated { return isKnown }
    refreshAt = now.adding(milliseconds: RedisClusterState.hurriedMilliseconds)
    guard case .array(let ranges) = reply, !ranges.isEmpty else { return isKnown }
    for earlier in 0..<index { questions[earlier].isOutdated = true }
    var newer: [Int16] = Array(repeating: -1, count: RedisSlot.count)
    for range in ranges {
      guard case .array(let parts) = range, parts.count >= 3, case .integer(let first) = parts[0],
        case .integer(let last) = parts[1], case .array(let owner) = parts[2], owner.count >= 2,
        case .integer(let port) = owner[1], let port = UInt16(exactly: port), first >= 0, last < RedisSlot.count,
        first <= last
      else { continue }
      // A node that does not know its own address leaves it empty.
      let host = owner[0].text.flatMap { $0.isEmpty || $0 == "?" ? nil : $0 } ?? host(of: node)
      guard let host, let number = number(of: .network(host: host, port: port), now: now) else { continue }
      for slot in Int(first)...Int(last) { newer[slot] = Int16(number) }
    }
    isKnown = !newer.contains(-1)
    // A partial table is better than none; slots that it leaves out may still be where they were.
    for slot in newer.indices where newer[slot] >= 0 { owners[slot] = newer[slot] }
    countSlots(now: now)
    if isKnown { refreshAt = now.adding(milliseconds: RedisClusterState.refreshMilliseconds) }
    return isKnown
  }

  private mutating func countSlots(now: Instant) {
    for number in ownerNumbers { name(number, now: now) }
    for number in slotCounts.indices { slotCounts[number] = 0 }
    for owner in owners where owner >= 0 { slotCounts[Int(owner)] += 1 }
    ownerNumbers = slotCounts.indices.filter { slotCounts[$0] > 0 }
  }

  private mutating func give(_ slot: Int, to node: Int, now: Instant) {
    let before = Int(owners[slot])
    if before == node { return }
    owners[slot] = Int16(node)
    slotCounts[node] += 1
    if before >= 0 {
      slotCounts[before] -= 1
      name(before, now: now)
    }
    if slotCounts[node] == 1 || (before >= 0 && slotCounts[before] == 0) {
      ownerNumbers = slotCounts.indices.filter { slotCounts[$0] > 0 }
    }
  }

  /// Parses `MOVED <slot> <host>:<port>`, `ASK …`, `TRYAGAIN` or `CLUSTERDOWN` from `node`; nil: another error.
  package mutating func redirect(_ message: String, from node: Int, now: Instant) -> Redirect? {
    let words = message.split(separator: " ")
    switch words.first {
    case "MOVED", "ASK":
      guard words.count >= 3, let slot = Int(words[1]), (0..<RedisSlot.count).contains(slot),
        let number = address(words[2], from: node).flatMap({ number(of: $0, now: now) })
      else { return nil }
      if words[0] == "ASK" { return .ask(node: number) }
      give(slot, to: number, now: now)
      doubt(now: now)
      return .moved(node: number)
    case "TRYAGAIN", "CLUSTERDOWN":
      doubt(now: now)
      return .later
    default:
      return nil
    }
  }

  private func address(_ text: Substring, from node: Int) -> RedisConfiguration.Address? {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else { return nil }
    let named = String(text[..<colon])
    guard let host = named.isEmpty ? host(of: node) : named else { return nil }
    return .network(host: host, port: port)
  }

  private func host(of node: Int) -> String? {
    switch nodes[node] {
    case .network(let host, _): host
    case .unix, nil: nil
    }
  }

  private mutating func number(of address: RedisConfiguration.Address, now: Instant) -> Int? {
    var number = nodes.firstIndex(of: address)
    if number == nil, let free = nodes.firstIndex(of: nil) {
      nodes[free] = address
      number = free
    } else if number == nil, nodes.count < RedisClusterState.nodesMaximum {
      nodes.append(address)
      slotCounts.append(0)
      namedAt.append(now)
      number = nodes.count - 1
    }
    if let number { name(number, now: now) }
    return number
  }
}
