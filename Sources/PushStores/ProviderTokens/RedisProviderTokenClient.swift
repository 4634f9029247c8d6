import PushCore
import PushCredentials
import PushIO

/// Runs the fleet's rules for provider tokens over one Redis connection, for each key in use.
///
/// Not Sendable: it belongs to the store's thread.
final class RedisProviderTokenClient {
  private struct Entry {
    let name: ProviderTokenName
    var state = ProviderTokenFleetState()
    var asker: ProviderTokens.Asker
    var offer: (token: [UInt8], issuedAt: Int64)?
    /// The newest token in use here.
    var carried: (token: [UInt8], issuedAt: Int64)?
    /// The command that waits for a reply; replies to others are late and ignored.
    var pending: Command?
    /// An unreadable stored token was reported.
    var isProblemReported = false
  }

  private enum Kind {
    case look, others, store, keep
  }

  /// A command in progress.
  private struct Command {
    var node: Int
    var tag: UInt64
    var kind: Kind
    var arguments: [String]
    var last: [UInt8]?
    /// It was redirected to another node of the cluster.
    var isRedirected: Bool
  }

  private let loop: EventLoop
  private let router: RedisRouter
  private var wasWhole = false
  private let prefix: String
  private let seal: TokenSeal?
  private let onProblem: (String) -> Void
  /// This process's name as a lock owner.
  private let owner: String
  private var entries: [Entry] = []
  private var random: SeededRandom

  init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, prefix: String, seal: TokenSeal?,
    seed: UInt64, onProblem: @escaping (String) -> Void
  ) {
    self.loop = loop
    self.prefix = prefix
    self.seal = seal
    self.onProblem = onProblem
    random = SeededRandom(seed: seed)
    owner = String(random.next(), radix: 36) + String(random.next(), radix: 36)
    var limits = RedisReader.Limits()
    // CLIENT LIST replies about 300 bytes for each connection.
    limits.bytesMaximum = 16 << 20
    router = RedisRouter(
      loop: loop, configuration: configuration, tls: tls, seed: random.next(), limits: limits)
    router.connect()
  }

  /// Longest time that the loop may sleep.
  var waitMilliseconds: Int {
    let next = entries.compactMap { $0.state.nextTurn(isConnected: router.isWhole) }.min()
    guard let next else { return 1000 }
    return Int(max(0, min(1000, next.milliseconds(since: loop.now.monotonic) + 1)))
  }

  func close() {
    for index in entries.indices {
      // So that nobody waits for our lock to expire.
      release(index)
    }
    router.close()
  }

  // MARK: - Asked

  func take(_ letter: RedisProviderTokenStore.Letter) {
    let now = loop.now
    switch letter {
    case .ask(let name, let newerThan, let refused, let asker):
      let index = entry(name, asker)
      perform(
        entries[index].state.asked(newerThan: newerThan, refused: refused, isConnected: router.isWhole, now: now), index
      )
    case .offer(let name, let token, let issuedAt, let asker):
      let index = entry(name, asker)
      entries[index].offer = (token, issuedAt)
      perform(entries[index].state.offered(now: now), index)
    case .decline(let name):
      guard let index = entries.firstIndex(where: { $0.name == name }) else { return }
      perform(entries[index].state.declined(), index)
    case .serves(let name, let token, let issuedAt, let asker):
      let index = entry(name, asker)
      entries[index].carried = (token, issuedAt)
      entries[index].state.carries()
    }
  }

  private func entry(_ name: ProviderTokenName, _ asker: ProviderTokens.Asker) -> Int {
    if let index = entries.firstIndex(where: { $0.name == name }) { return index }
    entries.append(Entry(name: name, asker: asker))
    return entries.count - 1
  }

  // MARK: - Turns

  /// Handles everything received since the last turn, and everything due.
  func turn() {
    while let (node, event) = router.nextEvent() {
      switch event {
      case .ready:
        break
      case .disconnected:
        if router.isOwner(node) { for index in entries.indices { fail(index) } }
      case .lost(let tag):
        if let index = entries.firstIndex(where: { $0.pending?.node == node && $0.pending?.tag == tag }) { fail(index) }
      case .reply(let tag, _):
        guard let index = entries.firstIndex(where: { $0.pending?.node == node && $0.pending?.tag == tag }) else {
          break
        }
        let reply = router.connections[node].copyReply()
        if let command = entries[index].pending {
          entries[index].pending = nil
          if !isRedirected(command, reply, index) { replied(command.kind, reply, index) }
        }
      }
    }
    if router.isWhole != wasWhole {
      wasWhole = router.isWhole
      if wasWhole { for index in entries.indices { perform(entries[index].state.connected(now: loop.now), index) } }
    }
    for index in entries.indices {
      perform(entries[index].state.turn(isConnected: router.isWhole, now: loop.now), index)
    }
  }

  private func replied(_ kind: Kind, _ reply: RedisReply, _ index: Int) {
    let now = loop.now
    switch (kind, reply) {
    case (.others, let reply):
      // Refused (an ACL without CLIENT LIST): assume that there are others.
      let count = reply.text.map { text in
        text.split(separator: "\n").count { $0.contains(" name=herald-tokens:\(prefix) ") }
      }
      perform(entries[index].state.counted(hasOthers: (count ?? 2) > 1, now: now), index)
    case (_, .error):
      fail(index)
    case (.look, .bulk(let sealed)):
      if let token = opened(sealed, index) {
        perform(entries[index].state.looked(.token, now: now), index, token: token)
      } else {
        fail(index)
      }
    case (.look, .integer(let number)):
      let look: ProviderTokenFleetState.Look =
        switch number {
        case 1: .locked(isEmpty: true)
        case 2: .locked(isEmpty: false)
        default: .lockedByOther
        }
      perform(entries[index].state.looked(look, now: now), index)
    case (.store, .bulk(let sealed)):
      if let token = opened(sealed, index) {
        perform(entries[index].state.stored(isLockLost: false, now: now), index, token: token)
      } else {
        fail(index)
      }
    case (.store, .integer):
      perform(entries[index].state.stored(isLockLost: true, now: now), index)
    case (.keep, .bulk(let sealed)):
      entries[index].state.kept()
      guard let token = opened(sealed, index) else { return }
      let asker = entries[index].asker
      asker.tokens.storeOffered(asker.handle, token: token, now: loop.tokenNow, random: random.next())
    case (.keep, .array(let values)):
      entries[index].state.kept()
      guard case .bulk(let value)? = values.first, let token = opened(value, index) else { return }
      let asker = entries[index].asker
      asker.tokens.storeReplaced(asker.handle, token: token, now: loop.tokenNow, random: random.next())
    case (.keep, _):
      entries[index].state.kept()
    case (.look, _), (.store, _):
      fail(index)
    }
  }

  private func fail(_ index: Int) {
    entries[index].pending = nil
    perform(entries[index].state.failed(), index)
  }

  // MARK: - Doing

  private func perform(_ action: ProviderTokenFleetState.Action, _ index: Int, token: [UInt8]? = nil) {
    switch action {
    case .none:
      break
    case .look(let newerThan, let refused):
      send(
        ["EVAL", RedisTokenScript.look, "3"] + keys(index) + [
          String(newerThan), String(ProviderTokenState.renewalAgeMinimumSeconds),
          String(ProviderTokenState.renewalGapSeconds), owner, String(ProviderTokenFleetState.lockMilliseconds),
          String(refused), String(loop.apnsUnixSeconds ?? 0),
        ], .look, index)
    case .countOthers:
      send(["CLIENT", "LIST", "TYPE", "normal"], .others, index)
    case .store:
      guard let offer = entries[index].offer, let sealed = sealed(offer.token, index) else { return fail(index) }
      send(
        ["EVAL", RedisTokenScript.store, "3"] + keys(index) + [
          owner, String(offer.issuedAt), String(ProviderTokenState.renewalGapSeconds),
          String(RedisProviderTokenClient.lifeSeconds), String(loop.apnsUnixSeconds ?? 0),
        ], last: sealed, .store, index)
    case .keep:
      guard let carried = entries[index].carried, let sealed = sealed(carried.token, index) else { return }
      let age = max(0, loop.tokenNow.unixSeconds &- carried.issuedAt)
      send(
        ["EVAL", RedisTokenScript.keep, "2", keys(index)[0], keys(index)[2]] + [
          String(carried.issuedAt), String(age), String(RedisProviderTokenClient.lifeSeconds),
          String(ProviderTokenState.renewalGapSeconds), String(loop.apnsUnixSeconds ?? 0),
        ], last: sealed, .keep, index)
    case .release:
      release(index)
    case .tell(let answer):
      tell(answer, index, token: token)
    }
  }

  private func tell(_ answer: ProviderTokenFleetState.Answer, _ index: Int, token: [UInt8]?) {
    let asker = entries[index].asker
    let reported: ProviderTokenStoreAnswer =
      switch answer {
      case .token: token.map { .token($0) } ?? .unreachable
      case .mayMint: .mayMint
      case .waiting: .waiting
      case .unreachable: .unreachable
      }
    // Its follow-up comes back as a letter.
    asker.tokens.storeAnswered(asker.handle, reported, now: loop.tokenNow, random: random.next())
  }

  private func send(_ arguments: [String], last: [UInt8]? = nil, _ kind: Kind, _ index: Int) {
    let node = node(index)
    guard let tag = router.connections[node].request(arguments, last: last) else { return fail(index) }
    entries[index].pending = Command(
      node: node, tag: tag, kind: kind, arguments: arguments, last: last, isRedirected: false)
  }

  private func release(_ index: Int) {
    _ = router.connections[node(index)].request(["EVAL", RedisTokenScript.release, "1", keys(index)[1], owner])
  }

  /// The number of the node with the keys.
  private func node(_ index: Int) -> Int {
    let key = keys(index)[0]
    return router.node(ofSlot: RedisSlot.of(key.utf8.span))
  }

  /// The slot moved: sends the command to the new node, once.
  private func isRedirected(_ command: Command, _ reply: RedisReply, _ index: Int) -> Bool {
    guard case .error(let error) = reply, !command.isRedirected,
      let redirect = router.redirect(error, from: command.node)
    else { return false }
    let node: Int
    switch redirect {
    case .moved(let owner): node = owner
    case .ask(let next):
      guard next < router.connections.count, router.connections[next].request(["ASKING"]) != nil else { return false }
      node = next
    case .later: return false
    }
    guard let tag = router.connections[node].request(command.arguments, last: command.last) else { return false }
    var again = command
    again.node = node
    again.tag = tag
    again.isRedirected = true
    entries[index].pending = again
    return true
  }

  // MARK: - Values

  /// Nobody can use a token older than this.
  private static let lifeSeconds = 3600

  /// The keys of the token, of its lock, and of the mark of a token that APNs never took.
  private func keys(_ index: Int) -> [String] {
    let name = entries[index].name
    let tag = "\(prefix){token:\(name.teamID):\(name.keyID)}:"
    return [tag + "value", tag + "lock", tag + "refused"]
  }

  /// The first letter gives the encoding of the rest.
  private func sealed(_ token: [UInt8], _ index: Int) -> [UInt8]? {
    guard let seal else { return [UInt8(ascii: "p")] + token }
    return seal.seal(token, belongingTo: owner(of: index)).map { [UInt8(ascii: "g")] + $0 }
  }

  private func opened(_ value: [UInt8], _ index: Int) -> [UInt8]? {
    var token: [UInt8]?
    switch value.first {
    case UInt8(ascii: "p"): token = Array(value.dropFirst())
    case UInt8(ascii: "g"): token = seal?.open(Array(value.dropFirst()), belongingTo: owner(of: index))
    case nil, .some: break
    }
    if token == nil, !entries[index].isProblemReported {
      onProblem(
        """
        the provider token of key \(entries[index].name.keyID) in Redis cannot be read: do all workers have the same \
        redis.token_key_file? This worker makes its own
        """)
    }
    entries[index].isProblemReported = token == nil
    return token
  }

  private func owner(of index: Int) -> [UInt8] {
    Array("\(entries[index].name.teamID):\(entries[index].name.keyID)".utf8)
  }
}
