import PushCore

/// Connections to a whole Redis: one server, the primary that Sentinels name, or the nodes of a cluster.
///
/// Every command goes to a node, by number, and events carry the number. A single server is always node 0. In a cluster, `node(ofSlot:)`
/// gives a key's node; pass error replies to `redirect`, which says where to send the command again. The owner pulls, as from
/// `RedisConnection`. Not Sendable: it belongs to its loop's thread.
package final class RedisRouter {
  package let configuration: RedisConfiguration
  /// By number; grows with the cluster. A connection is only replaced if no commands wait for it.
  package private(set) var connections: [RedisConnection] = []
  /// Increases whenever `connections` changes, or slots get another owner.
  package private(set) var version: UInt64 = 0

  private let loop: EventLoop
  private let tls: TLSContext?
  private let scripts: [String]
  private let seed: UInt64
  private let limits: RedisReader.Limits
  private var cluster: RedisClusterState?
  private let sentinels: RedisSentinelWatch?
  /// The primary's address is known.
  private var isPrimaryKnown = false
  /// By number: the tag of a CLUSTER SLOTS in flight.
  private var topologyTags: [UInt64?] = []
  /// By number: a connection was lost, or could not be opened.
  private var hasFailed: [Bool] = []
  /// Sentinels in a row without a useful answer.
  private var sentinelFailures = 0
  private var nextTidying = Instant(nanoseconds: .min)
  private var nextNode = 0
  private var wake: TimerToken?
  private var isClosed = false

  /// How often a cluster and Sentinels are checked.
  private static let lookMilliseconds: Int64 = 100
  /// How often nodes without slots are looked for.
  private static let tidyMilliseconds: Int64 = 1_000

  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, scripts: [String] = [], seed: UInt64,
    limits: RedisReader.Limits = RedisReader.Limits()
  ) {
    self.loop = loop
    self.configuration = configuration
    self.tls = tls
    self.scripts = scripts
    self.seed = seed
    self.limits = limits
    switch configuration.topology {
    case .single:
      sentinels = nil
    case .cluster:
      sentinels = nil
      cluster = RedisClusterState(
        seeds: configuration.addresses, spareMilliseconds: configuration.spareMilliseconds)
    case .sentinel(let primary):
      sentinels = RedisSentinelWatch(
        loop: loop, configuration: configuration, tls: tls, primary: primary, seed: seed)
    }
    for number in 0..<(cluster?.nodes.count ?? 1) { setConnection(number) }
  }

  deinit {
    if let wake { loop.cancel(wake) }
  }

  /// Connects now, and again after every loss.
  package func connect() {
    if let sentinels { sentinels.connect() } else { for connection in connections { connection.connect() } }
    if configuration.topology != .single { look() }
  }

  /// Closes for good: writes what was sent, and reports nothing more.
  package func close() {
    isClosed = true
    if let wake { loop.cancel(wake) }
    wake = nil
    sentinels?.close()
    for connection in connections { connection.close() }
  }

  package var isCluster: Bool { cluster != nil }

  /// Every key is reachable.
  package var isWhole: Bool {
    guard let cluster else { return connections[0].isReady }
    return cluster.isKnown && cluster.ownerNumbers.allSatisfy { connections[$0].isReady }
  }

  /// The start is complete: each required server is connected, or could not be reached.
  package var isSettled: Bool {
    guard let cluster else {
      return connections[0].isReady || hasFailed[0]
        || (sentinels != nil && sentinelFailures >= configuration.addresses.count)
    }
    guard cluster.isKnown else { return connections.indices.allSatisfy { hasFailed[$0] && !connections[$0].isReady } }
    return cluster.ownerNumbers.allSatisfy { connections[$0].isReady || hasFailed[$0] }
  }

  /// The slot's node.
  package func node(ofSlot slot: Int) -> Int { cluster?.owner(of: slot) ?? 0 }

  /// The node is in use: the server, the primary, or an owner of slots.
  package func isOwner(_ node: Int) -> Bool {
    guard let cluster else { return true }
    return cluster.isKnown ? cluster.isOwner(node) : cluster.nodes[node] != nil
  }

  /// The node does not answer properly: its slots may move soon.
  package func doubt() { cluster?.doubt(now: loop.now.monotonic) }

  /// The node is a replica: its address is resolved again, with Sentinels by asking another one.
  package func demoted(_ node: Int) {
    sentinels?.askAnother()
    connections[node].reconnect()
  }

  /// What to do with a command that got this error reply; nil: it is not a redirect.
  package func redirect(_ error: RedisServerError, from node: Int) -> RedisClusterState.Redirect? {
    guard error.kind == .cluster else { return nil }
    let redirect = cluster?.redirect(error.message, from: node, now: loop.now.monotonic)
    if case .moved = redirect { version &+= 1 }
    addNewNodes()
    return redirect
  }

  /// The next event of this turn; nil once everything is reported.
  package func nextEvent() -> (node: Int, event: RedisEvent)? {
    if let sentinels { follow(sentinels) }
    if let failure = sentinels?.takeFailure() {
      sentinelFailures += 1
      if !isPrimaryKnown { return (0, .disconnected(failure)) }
    }
    var silent = 0
    while silent < connections.count {
      let node = nextNode < connections.count ? nextNode : 0
      guard let event = connections[node].nextEvent() else {
        silent += 1
        nextNode = node + 1
        continue
      }
      silent = 0
      if takes(event, node) { continue }
      return (node, event)
    }
    askForTopology()
    tidy()
    return nil
  }

  // MARK: - Following

  /// Creates the connection for a number; no commands may wait for the old one.
  private func setConnection(_ number: Int) {
    var own = configuration
    own.address = cluster?.nodes[number] ?? configuration.address
    version &+= 1
    let connection = RedisConnection(
      loop: loop, configuration: own, tls: tls, scripts: scripts, seed: seed &+ version,
      requiresPrimary: sentinels != nil, limits: limits)
    if number == connections.count {
      connections.append(connection)
      topologyTags.append(nil)
      hasFailed.append(false)
    } else {
      precondition(connections[number].waitingCount == 0, "what waits for a node would be another one's")
      connections[number].close()
      connections[number] = connection
      topologyTags[number] = nil
      hasFailed[number] = false
    }
  }

  private func addNewNodes() {
    guard let cluster, !isClosed else { return }
    let now = loop.now.monotonic
    for number in cluster.nodes.indices where cluster.nodes[number] != nil {
      if number == connections.count || connections[number].isClosed { setConnection(number) }
      if !cluster.isSpare(number, now: now) { connections[number].connect() }
    }
  }

  private var seedCount: Int { cluster?.seedCount ?? 0 }

  /// Disconnects nodes without slots and waiting commands. If owners are missing, configured nodes are connected again.
  private func tidy() {
    guard let cluster, !isClosed, loop.now.monotonic >= nextTidying else { return }
    let now = loop.now.monotonic
    nextTidying = now.adding(milliseconds: RedisRouter.tidyMilliseconds)
    let isWhole = isWhole
    for number in connections.indices where number < seedCount {
      if !isWhole { self.cluster?.name(number, now: now) }
      // It became an owner after it was disconnected for owning nothing.
      if !isWhole || cluster.isOwner(number) { connections[number].connect() }
    }
    for number in connections.indices where cluster.isSpare(number, now: now) && connections[number].waitingCount == 0 {
      if number >= seedCount {
        self.cluster?.forget(number)
        connections[number].close()
      } else if isWhole, !connections[number].isIdle {
        setConnection(number)
      }
    }
  }

  private func follow(_ sentinels: RedisSentinelWatch) {
    guard let address = sentinels.turn() else { return }
    if isPrimaryKnown {
      if connections[0].configuration.address != address { connections[0].move(to: address) }
    } else {
      isPrimaryKnown = true
      connections[0].move(to: address)
      connections[0].connect()
    }
  }

  /// Whether the event concerns only the router.
  private func takes(_ event: RedisEvent, _ node: Int) -> Bool {
    switch event {
    case .reply(let tag, _):
      guard topologyTags[node] == tag else { return false }
      learned(connections[node].copyReply(), from: node)
      return true
    case .lost(let tag):
      guard topologyTags[node] == tag else { return false }
      learned(nil, from: node)
      return true
    case .disconnected(let error):
      hasFailed[node] = true
      cluster?.doubt(now: loop.now.monotonic)
      if case .notPrimary = error { sentinels?.askAnother() } else { sentinels?.hurry() }
      return false
    case .ready:
      return false
    }
  }

  private func learned(_ reply: RedisReply?, from node: Int) {
    topologyTags[node] = nil
    cluster?.learned(reply, from: node, now: loop.now.monotonic)
    version &+= 1
    addNewNodes()
  }

  private func askForTopology() {
    guard cluster != nil else { return }
    // While a node is down its slots may move at any time.
    if !isWhole { cluster?.doubt(now: loop.now.monotonic) }
    let node = cluster?.nodeToAsk(now: loop.now.monotonic) { connections[$0].isReady }
    guard let node else { return }
    topologyTags[node] = connections[node].request(["CLUSTER", "SLOTS"])
  }

  /// Wakes the loop regularly; the owner's turn then does the checks.
  private func look() {
    wake = loop.schedule(afterMilliseconds: RedisRouter.lookMilliseconds) { [unowned self] in
      wake = nil
      if !isClosed { look() }
    }
  }
}
