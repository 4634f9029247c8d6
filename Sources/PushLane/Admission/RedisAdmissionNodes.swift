import PushCore
import PushIO

/// All of Redis as the admission store uses it: a node for each of the router's connections, and the commands as its servers know them.
///
/// It sends, and decides nothing: whom to ask instead, and what to do with what nobody takes, is its owner's to know.
struct RedisAdmissionNodes: ~Copyable {
  typealias Entry = RedisAdmissionQueue.Entry

  let router: RedisRouter
  /// (job, target)s of one call: in a cluster each has a slot of its own.
  let callMaximum: Int
  private let settings: RedisAdmissionStoreSettings
  private let breaker: BreakerState.Settings
  /// By the router's numbers.
  private var nodes: [RedisAdmissionNode] = []
  /// The router's, when `nodes` were made after its connections.
  private var routerVersion: UInt64?
  /// nil until a server gave the scripts' digests.
  private var commands: RedisScriptCommands?
  private var format: RedisAdmissionFormat?

  /// Names that are tried to find a key of a cluster's node.
  private static let probeKeysMaximum = 512
  /// A call that asks for more would keep Redis from its other clients for too long.
  private static let callMaximum = 64

  init(router: RedisRouter, settings: RedisAdmissionStoreSettings) {
    self.router = router
    self.settings = settings
    callMaximum = router.isCluster ? 1 : RedisAdmissionNodes.callMaximum
    var breaker = BreakerState.Settings()
    breaker.failuresMaximum = settings.failuresMaximum
    breaker.failingMilliseconds = settings.failingMilliseconds
    breaker.probeIntervalMilliseconds = settings.probeIntervalMilliseconds
    breaker.probeTimeoutMilliseconds = settings.timeoutMilliseconds * settings.patience
    self.breaker = breaker
    _ = followRouter()
  }

  // MARK: - Nodes

  var indices: Range<Int> { nodes.indices }

  subscript(index: Int) -> RedisAdmissionNode { nodes[index] }

  /// That which has the device's keys.
  func node(for request: AdmissionRequest) -> RedisAdmissionNode {
    guard router.isCluster else { return nodes[0] }
    var tag = InlineArray<22, UInt8>(repeating: 0)
    var span = tag.mutableSpan
    request.device.writeText(into: &span, at: 0)
    return nodes[router.node(ofSlot: RedisSlot.of(tag: tag.span))]
  }

  /// Of the nodes in use; nil: all work.
  var trouble: String? {
    for index in nodes.indices where router.isOwner(index) {
      if let trouble = nodes[index].state.trouble { return trouble }
    }
    return nil
  }

  /// Takes over the connections that the router has now: one that hung up has nothing waiting, and is not this one's any more. Returns
  /// what was asked for and cannot be sent; nil: nothing changed.
  mutating func followRouter() -> [Entry]? {
    guard routerVersion != router.version else { return nil }
    routerVersion = router.version
    var unsent: [Entry] = []
    for (index, connection) in router.connections.enumerated() {
      if index < nodes.count, nodes[index].connection === connection { continue }
      let node = RedisAdmissionNode(connection: connection, breaker: breaker, settings: settings)
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

  /// Gives every connection up and makes it anew.
  func reconnect() {
    for node in nodes { node.connection.reconnect() }
  }

  // MARK: - Commands

  var hasCommands: Bool { commands != nil }

  /// Writes all commands for these settings. The digests are those of the scripts' texts: every server's are the same. Calls with the
  /// settings of before must be sent.
  mutating func makeCommands(for settings: RedisAdmissionStoreSettings) {
    guard let admit = digest(RedisScript.admitNumber), let tell = digest(RedisScript.tellNumber) else { return }
    commands = RedisScriptCommands(settings: settings, tellDigest: tell)
    let format = RedisAdmissionFormat(digest: admit, settings: settings)
    self.format = format
    for node in nodes { node.use(format) }
  }

  private func digest(_ number: Int) -> [UInt8]? {
    nodes.lazy.map { $0.connection.scriptDigest(number) }.first { !$0.isEmpty }
  }

  /// Has Redis remember an outcome. `isLate`: with all that belongs to it, for its claim may not be there. false: the node takes none now.
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

  /// Leaves a device alone for a while. false: the connection takes nothing.
  mutating func tighten(_ entry: Entry, at node: RedisAdmissionNode) -> Bool {
    guard commands?.sendTightening(entry.request, on: node.connection) == true else { return false }
    node.sent(entry)
    return true
  }

  /// Whom to send a command to that was redirected, made ready to take it. nil: nobody, yet.
  func target(of redirect: RedisClusterState.Redirect) -> RedisAdmissionNode? {
    switch redirect {
    case .moved(let node): nodes[node]
    case .ask(let node): sendAsking(to: nodes[node]) ? nodes[node] : nil
    case .later: nil
    }
  }

  /// Has the node take the next command for a slot that is on its way to it.
  private func sendAsking(to node: RedisAdmissionNode) -> Bool {
    guard let asking = commands?.asking, node.connection.send(asking, tag: 1) else { return false }
    node.sent(Entry(kind: .asking, request: Entry.noRequest))
    return true
  }

  /// Asks whether the server takes writes; of a cluster's node, with a key that lies in one of its slots.
  func sendProbe(_ index: Int) {
    guard let commands else { return }
    let probe = router.isCluster ? clusterProbe(index) ?? commands.ping : commands.probe
    guard nodes[index].connection.send(probe, tag: 1) else { return }
    nodes[index].sent(Entry(kind: .probe, request: Entry.noRequest))
  }

  /// nil: no key was found, for the node has few slots or none.
  private func clusterProbe(_ index: Int) -> RedisCommand? {
    guard router.isOwner(index) else { return nil }
    for number in 0..<RedisAdmissionNodes.probeKeysMaximum {
      let key = "\(settings.prefix)probe:\(number)"
      guard router.node(ofSlot: RedisSlot.of(key.utf8.span)) == index else { continue }
      return RedisCommand(["SET", key, "1", "PX", "1000"])
    }
    return nil
  }
}
