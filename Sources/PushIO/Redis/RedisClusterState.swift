package import PushCore

/// What is known of a Redis Cluster: its nodes, who owns which slot, and when to ask again. Without I/O.
///
/// Nodes keep their numbers for ever, so what waits for one is never taken for another's; there is a bound on them.
package struct RedisClusterState: Sendable {
  /// Where an error reply sends a command.
  package enum Redirect: Hashable, Sendable {
    /// The slot's new owner, from now on.
    case moved(node: Int)
    /// This one time: the slot is on its way there.
    case ask(node: Int)
    /// Not now: the slot is between two nodes, or its owner is being replaced.
    case later
  }

  package static let nodesMaximum = 256
  private static let refreshMilliseconds: Int64 = 60_000
  private static let hurriedMilliseconds: Int64 = 250
  private static let answerMilliseconds: Int64 = 1_000

  /// By number: the ones that were configured first.
  package private(set) var nodes: [RedisConfiguration.Address]
  /// By slot: its owner's number; -1: nobody known.
  private var owners: [Int16]
  /// When the table is asked for again.
  private var refreshAt = Instant(nanoseconds: .min)
  /// Whom it was asked of, and until when the answer is waited for.
  private var asked: (node: Int, deadline: Instant)?
  private var nextAsked = 0

  package init(seeds: [RedisConfiguration.Address]) {
    nodes = seeds
    owners = Array(repeating: -1, count: RedisSlot.count)
  }

  /// Every slot has an owner.
  package private(set) var isKnown = false

  /// The slot's owner; any node where it is not known: that one answers with a redirect.
  package func owner(of slot: Int) -> Int { max(0, Int(owners[slot])) }

  /// Numbers of the nodes that own slots.
  package var ownerNumbers: Set<Int> { Set(owners.lazy.filter { $0 >= 0 }.map(Int.init)) }

  /// Whom to ask for the table now, with CLUSTER SLOTS; nil: nobody. `isReady` says of a node whether it is connected.
  package mutating func nodeToAsk(now: Instant, isReady: (Int) -> Bool) -> Int? {
    if let asked, now < asked.deadline { return nil }
    guard now >= refreshAt else { return nil }
    for offset in 0..<nodes.count {
      let node = (nextAsked + offset) % nodes.count
      guard isReady(node) else { continue }
      asked = (node, now.adding(milliseconds: RedisClusterState.answerMilliseconds))
      nextAsked = node + 1
      return node
    }
    return nil
  }

  /// The table may be out of date: it is asked for soon.
  package mutating func doubt(now: Instant) {
    refreshAt = min(refreshAt, now.adding(milliseconds: isKnown ? RedisClusterState.hurriedMilliseconds : 0))
  }

  /// The answer to CLUSTER SLOTS; nil: none came. Returns whether all slots have an owner now.
  @discardableResult
  package mutating func learned(_ reply: RedisReply?, now: Instant) -> Bool {
    let node = asked?.node ?? 0
    asked = nil
    refreshAt = now.adding(milliseconds: RedisClusterState.hurriedMilliseconds)
    guard case .array(let ranges) = reply, !ranges.isEmpty else { return isKnown }
    var newer: [Int16] = Array(repeating: -1, count: RedisSlot.count)
    for range in ranges {
      guard case .array(let parts) = range, parts.count >= 3, case .integer(let first) = parts[0],
        case .integer(let last) = parts[1], case .array(let owner) = parts[2], owner.count >= 2,
        case .integer(let port) = owner[1], let port = UInt16(exactly: port), first >= 0, last < RedisSlot.count,
        first <= last
      else { continue }
      // A node that does not know its own address leaves it empty.
      let host = owner[0].text.flatMap { $0.isEmpty || $0 == "?" ? nil : $0 } ?? host(of: node)
      guard let host, let number = number(of: .network(host: host, port: port)) else { continue }
      for slot in Int(first)...Int(last) { newer[slot] = Int16(number) }
    }
    isKnown = !newer.contains(-1)
    // A part of the table is better than none, and what it leaves out may still be where it was.
    for slot in newer.indices where newer[slot] >= 0 { owners[slot] = newer[slot] }
    if isKnown { refreshAt = now.adding(milliseconds: RedisClusterState.refreshMilliseconds) }
    return isKnown
  }

  /// Reads `MOVED <slot> <host>:<port>`, `ASK …`, `TRYAGAIN`, `CLUSTERDOWN`, as node `node` said it; nil: something else.
  package mutating func redirect(_ message: String, from node: Int, now: Instant) -> Redirect? {
    let words = message.split(separator: " ")
    switch words.first {
    case "MOVED", "ASK":
      guard words.count >= 3, let slot = Int(words[1]), (0..<RedisSlot.count).contains(slot),
        let number = address(words[2], from: node).flatMap({ number(of: $0) })
      else { return nil }
      if words[0] == "ASK" { return .ask(node: number) }
      owners[slot] = Int16(number)
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
    case .unix: nil
    }
  }

  private mutating func number(of address: RedisConfiguration.Address) -> Int? {
    if let number = nodes.firstIndex(of: address) { return number }
    guard nodes.count < RedisClusterState.nodesMaximum else { return nil }
    nodes.append(address)
    return nodes.count - 1
  }
}
