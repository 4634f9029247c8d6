import PushCore
import PushIO

/// All servers of the admission store: a node for each of the router's connections, and the commands that its servers know.
///
/// It only sends. Its owner decides what to ask instead, and what to do if no node accepts a command.
struct RedisAdmissionNodes: ~Copyable {
  typealias Entry = RedisAdmissionQueue.Entry

  private let loop: EventLoop
  let router: RedisRouter
  /// Maximum of (job, target)s in one call; in a cluster each has its own slot.
  let callMaximum: Int
  private let settings: RedisAdmissionStoreSettings
  private let breaker: BreakerState.Settings
  /// By the router's numbers.
  private var nodes: [RedisAdmissionNode] = []
  /// The router's version when `nodes` was last adjusted to its connections.
  private var routerVersion: UInt64?
  /// nil until a server gave the scripts' digests.
  private var commands: RedisScriptCommands?
  private var format: RedisAdmissionFormat?

  /// Maximum of names that are tried to find a key in a cluster node's slots.
  private static let probeKeysMaximum = 512
  /// A larger call would block Redis' other clients for too long.
  private static let callMaximum = 64

  init(loop: EventLoop, router: RedisRouter, settings: RedisAdmissionStoreSettings) {
    self.loop = loop
    self.router = router
    self.settings = settings
    callMaximum = router.isCluster ? 1 : RedisAdmissionNodes.callMaximum
    var breaker = BreakerState.Settings()
    breaker.failuresMaximum = settings.failuresMaximum
    breaker.failingMilliseconds = settings.failingMilliseconds
    breaker.probeIntervalMilliseconds = settings.probeIntervalMilliseconds
    self.breaker = breaker
    _ = followRouter()
  }

  // MARK: - Nodes

  var indices: Range<Int> { nodes.indices }

  subscript(index: Int) -> RedisAdmissionNode { nodes[index] }

  /// The node with the device's keys.
  func node(for request: AdmissionRequest) -> RedisAdmissionNode {
    guard router.isCluster else { return nodes[0] }
    var tag = InlineArray<22, UInt8>(repeating: 0)
    var span = tag.mutableSpan
    request.device.writeText(into: &span, at: 0)
    return nodes[router.node(ofSlot: RedisSlot.of(tag: tag.span))]
  }

  /// What is wrong with a node in use; nil: all work.
  var trouble: String? {
    for index in nodes.indices where router.isOwner(index) {
      if let trouble = nodes[index].state.trouble { return trouble }
    }
    return nil
  }

  /// Adjusts to the router's connections. A connection that was closed has no commands waiting, and may belong to another node now. Returns
  /// the admissions that cannot be sent; nil: nothing changed.
  mutating func followRouter() -> [Entry]? {
    guard routerVersion != router.version else { return nil }
    routerVersion = router.version
    var unsent: [Entry] = []
    for (index, connection) in router.connections.enumerated() {
      if index < nodes.count, nodes[index].connection === connection { continue }
      let node = RedisAdmissionNode(loop: loop, connection: connection, breaker: breaker, settings: settings)
      if let format { node.use(format) }
      if index < nodes.count {
        precondition(nodes[index].isQuiet, "what waits for a node would be another one's")
        unsent += nodes[index].sendCall()
        nodes[index] = node
      } else {
        nodes.append(node)
      }
    }
    return unsent
  }

  /// Closes every connection and makes new ones.
  func reconnect() {
    for node in nodes { node.connection.reconnect() }
  }

  // MARK: - Commands

  var hasCommands: Bool { commands != nil }

  /// Writes all commands for these settings. Digests are those of the scripts' texts, so every server has the same. Calls with the old
  /// settings must be sent first.
  mutating func makeCommands(for settings: RedisAdmissionStoreSettings) {
    guard let admit = digest(RedisScript.admitNumber), let tell = digest(RedisScript.tellNumber),
      let probe = digest(RedisScript.probeNumber)
    else { return }
    commands = RedisScriptCommands(settings: settings, tellDigest: tell, probeDigest: probe)
    let format = RedisAdmissionFormat(digest: admit, settings: settings)
    self.format = format
    for node in nodes { node.use(format) }
  }

  private func digest(_ number: Int) -> [UInt8]? {
    nodes.lazy.map { $0.connection.scriptDigest(number) }.first { !$0.isEmpty }
  }

  /// Stores an outcome in Redis. `isLate`: in full, because its claim may be missing. false: the node accepts none now.
  mutating func send(_ unconfirmed: UnconfirmedOutcome, isLate: Bool, to node: RedisAdmissionNode) -> Bool {
    guard node.takesOutcomes else { return false }
    let byteCount =
      isLate
      ? commands?.sendLateMemory(unconfirmed.outcome, of: unconfirmed.request, on: node.connection)
      : commands?.sendMemory(unconfirmed.outcome, of: unconfirmed.request, on: node.connection)
    guard let byteCount else { return false }
    var unconfirmed = unconfirmed
    unconfirmed.byteCount = byteCount
    node.sent(unconfirmed)
    return true
  }

  /// Stores how a message ended. Where the node takes nothing, or it is lost on its way, another delivery ends as it may.
  mutating func send(
    _ outcome: RememberedOutcome, claim: UInt32, of request: AdmissionRequest, to node: RedisAdmissionNode
  ) -> Bool {
    guard node.takesOutcomes,
      commands?.sendFate(outcome, claim: claim, of: request, on: node.connection) == true
    else { return false }
    node.sent(Entry(kind: .unwatched, request: request))
    return true
  }

  /// Sends nothing to a device for a while. false: the connection accepts nothing.
  mutating func tighten(_ entry: Entry, at node: RedisAdmissionNode) -> Bool {
    guard commands?.sendTightening(entry.request, on: node.connection) == true else { return false }
    node.sent(entry)
    return true
  }

  /// The node for a redirected command, ready to take it. nil: none yet.
  func target(of redirect: RedisClusterState.Redirect) -> RedisAdmissionNode? {
    switch redirect {
    case .moved(let node): nodes[node]
    case .ask(let node): sendAsking(to: nodes[node]) ? nodes[node] : nil
    case .later: nil
    }
  }

  /// Makes the node accept the next command for a slot that is being migrated to it.
  private func sendAsking(to node: RedisAdmissionNode) -> Bool {
    guard let asking = commands?.asking, node.connection.send(asking, tag: 1) else { return false }
    node.sent(Entry(kind: .unwatched, request: Entry.noRequest))
    return true
  }

  /// Asks whether the server carries out admissions; a cluster's node is asked with a key in one of its slots, or, where none is found, only
  /// whether it answers.
  func sendProbe(_ index: Int) {
    guard let commands else { return }
    let key = router.isCluster ? clusterProbeKey(index) : settings.prefix + "probe"
    let probe = key.map(commands.probe) ?? commands.ping
    guard nodes[index].connection.send(probe, tag: 1) else { return }
    nodes[index].sent(Entry(kind: .probe, request: Entry.noRequest))
  }

  /// nil: no key was found, because the node has few slots or none.
  private func clusterProbeKey(_ index: Int) -> String? {
    guard router.isOwner(index) else { return nil }
    for number in 0..<RedisAdmissionNodes.probeKeysMaximum {
      let key = "\(settings.prefix)probe:\(number)"
      guard router.node(ofSlot: RedisSlot.of(key.utf8.span)) == index else { continue }
      return key
    }
    return nil
  }
}
