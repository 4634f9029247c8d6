import PushCore
package import PushIO

/// Redis commands with one answer each, on an event loop: for work off the job path that must not block.
///
/// Commands wait while Redis is being connected, and follow moved cluster slots. Each one is answered once, at the
/// latest after the timeout. Not Sendable: it belongs to its loop's thread. An error is a text: what failed, and where.
package final class RedisClient {
  package struct Failure: Error, Hashable, Sendable {
    package let text: String
    /// The server answers, but a key holds what something else wrote: asking again gives the same.
    var isForeignData = false
  }

  package typealias Answer = (Result<RedisReply, Failure>) -> Void

  private struct Call {
    let slot: Int
    var command: RedisCommand
    /// Called by its digest; nil: the server did not have it, or this is another command.
    var script: LuaScript?
    /// Number of the command's arguments, and where those after a script's digest begin.
    let argumentCount: Int
    var tailStart = 0
    let deadline: Instant
    var redirects = 0
    /// Not sent before this time: its slot is being moved, or has no node.
    var notBefore = Instant(nanoseconds: .min)
    let then: Answer
  }

  private let loop: EventLoop
  private let router: RedisRouter
  private let timeoutMilliseconds: Int64
  /// Not sent: the node is not connected.
  private var waiting: [Call] = []
  /// By node and tag.
  private var sent: [[UInt64: Call]] = []
  private var nextTag: UInt64 = 0
  private var lastFailure: String?
  /// When the server is next asked for its time; nil: it is being asked, or never.
  private var timeDue: Instant?
  /// Changes whenever commands may have come to another server, or to the same one restarted: what was read before may have been undone since,
  /// by a failover to a replica that missed writes or by a backup.
  package private(set) var generation: UInt64 = 0 { didSet { generationAt = loop.now.unixMilliseconds } }
  /// When it changed last, Unix milliseconds by the loop's clock.
  package private(set) var generationAt: Int64 = 0
  private var onTime: (Int64) -> Void = { _ in }

  /// The wait after the first answer that a slot cannot be served now; each further one waits twice as long.
  private static let laterMilliseconds: Int64 = 20
  /// Maximum redirects of one command.
  private static let redirectsMaximum = 8
  /// Enough for a list of all channels of an app.
  private static let replyBytesMaximum = 16 << 20
  private static let replyValuesMaximum = 1 << 17
  /// Interval between questions for the server's time.
  private static let timeMilliseconds: Int64 = 10_000
  /// An answer that took longer tells too little.
  private static let timeRoundTripMaximum: Int64 = 1_000

  /// - Parameter seed: of the pauses between connects; different in each client.
  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, timeoutMilliseconds: Int64 = 5_000,
    seed: UInt64
  ) {
    self.loop = loop
    self.timeoutMilliseconds = timeoutMilliseconds
    var limits = RedisReader.Limits()
    limits.bytesMaximum = RedisClient.replyBytesMaximum
    limits.valuesMaximum = RedisClient.replyValuesMaximum
    router = RedisRouter(
      loop: loop, configuration: configuration, tls: tls, seed: seed, limits: limits)
    router.connect()
  }

  package var isConnected: Bool { router.isWhole }

  /// Sends a command. `key` selects the node of a cluster; `last` is one more argument, of any bytes.
  package func call(_ arguments: [String], last: [UInt8]? = nil, key: String, then: @escaping Answer) {
    var command = RedisCommand()
    let count = arguments.count + (last == nil ? 0 : 1)
    command.begin(argumentCount: count)
    for argument in arguments { command.append(argument) }
    if let last { command.append(last) }
    start(
      Call(
        slot: RedisSlot.of(key.utf8.span), command: command, argumentCount: count, deadline: deadline, then: then))
  }

  /// Runs a script. Its text is sent only if the server does not have it.
  /// - Parameter keys: at least one; the first selects the node of a cluster.
  package func run(_ script: LuaScript, keys: [String], _ arguments: RedisArguments, then: @escaping Answer) {
    var command = RedisCommand()
    let count = 3 + keys.count + arguments.count
    command.begin(argumentCount: count)
    command.append("EVALSHA")
    command.append(script.digest)
    let tailStart = command.bytes.count
    command.append(Int64(keys.count))
    for key in keys { command.append(key) }
    command.append(encoded: arguments.encoded)
    start(
      Call(
        slot: RedisSlot.of(keys[0].utf8.span), command: command, script: script, argumentCount: count,
        tailStart: tailStart, deadline: deadline, then: then))
  }

  private var deadline: Instant { loop.now.monotonic.adding(milliseconds: timeoutMilliseconds) }

  private func start(_ call: Call) {
    if !send(call) { waiting.append(call) }
  }

  /// Corrects the loop's wall clock by the server's, now and every ten seconds: one client of a process does.
  /// - Parameter then: called with how far the server's clock is ahead of this machine's, milliseconds.
  package func followTime(_ then: @escaping (Int64) -> Void) {
    onTime = then
    timeDue = loop.now.monotonic
  }

  /// Corrects a wall clock once. Blocks until the server has answered, or for this long.
  package static func teach(
    _ wallClock: WallClock, _ configuration: RedisConfiguration, tls: TLSContext?, timeoutMilliseconds: Int64 = 500
  ) {
    guard let loop = try? EventLoop(wallClock: wallClock) else { return }
    let client = RedisClient(
      loop: loop, configuration: configuration, tls: tls, timeoutMilliseconds: timeoutMilliseconds, seed: 1)
    var isLearned = false
    client.followTime { _ in isLearned = true }
    let deadline = loop.now.monotonic.adding(milliseconds: timeoutMilliseconds)
    while !isLearned, loop.now.monotonic < deadline {
      client.turn()
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 10)
    }
    client.close()
    loop.flush()
  }

  /// Handles everything received since the last turn; answers are reported from here.
  package func turn() {
    while let (node, event) = router.nextEvent() {
      switch event {
      case .ready:
        lastFailure = nil
        generation &+= 1
        // It may be another server than before.
        if timeDue != nil { timeDue = loop.now.monotonic }
      case .disconnected(let error):
        lastFailure = "\(error)"
      case .lost(let tag):
        take(node, tag)?.then(.failure(Failure(text: lastFailure ?? "the connection was lost")))
      case .reply(let tag, _):
        guard let call = take(node, tag) else { break }
        replied(router.connections[node].copyReply(), call, node)
      }
    }
    if !waiting.isEmpty {
      let calls = waiting
      waiting = []
      let now = loop.now.monotonic
      for call in calls where call.notBefore > now || !send(call) { waiting.append(call) }
    }
    dropLate()
    askForTime()
  }

  /// Asks the server for its time, by which all workers of a fleet count (`WallClockState`).
  private func askForTime() {
    guard let due = timeDue, due <= loop.now.monotonic, isConnected else { return }
    timeDue = nil
    let asked = loop.now.monotonic
    time { [weak self] result in
      guard let self else { return }
      let now = loop.now.monotonic
      timeDue = now.adding(milliseconds: RedisClient.timeMilliseconds)
      let tookMilliseconds = now.milliseconds(since: asked)
      guard case .success(let time) = result, tookMilliseconds <= RedisClient.timeRoundTripMaximum else { return }
      let half = tookMilliseconds / 2
      onTime(loop.heard(.redis, unixMilliseconds: time + half, error: half))
    }
  }

  /// The server's time, Unix milliseconds.
  private func time(then: @escaping (Result<Int64, Failure>) -> Void) {
    call(["TIME"], key: "") { result in
      then(
        result.flatMap { reply in
          guard case .array(let parts) = reply, parts.count == 2, let seconds = parts[0].text.flatMap(Int64.init),
            let micros = parts[1].text.flatMap(Int64.init), 0...Limits.unixSecondsMaximum ~= seconds,
            0..<1_000_000 ~= micros
          else { return .failure(Failure(text: "unexpected reply to TIME")) }
          return .success(seconds * 1_000 + micros / 1_000)
        })
    }
  }

  /// Closes for good; outstanding commands fail.
  package func close() {
    router.close()
    fail { _ in true }
  }

  /// Drops all calls unanswered: their owner is gone, and their closures would keep it alive.
  package func abandon() {
    waiting = []
    sent = []
  }

  private func send(_ call: Call) -> Bool {
    send(call, to: router.node(ofSlot: call.slot))
  }

  private func send(_ call: Call, to node: Int) -> Bool {
    guard node < router.connections.count, router.connections[node].send(call.command, tag: nextTag) else {
      return false
    }
    while sent.count <= node { sent.append([:]) }
    sent[node][nextTag] = call
    nextTag += 1
    return true
  }

  private func take(_ node: Int, _ tag: UInt64) -> Call? {
    node < sent.count ? sent[node].removeValue(forKey: tag) : nil
  }

  private func replied(_ reply: RedisReply, _ call: Call, _ node: Int) {
    guard case .error(let error) = reply else { return call.then(.success(reply)) }
    var again = call
    if error.kind == .noScript, let script = call.script {
      again.command.begin(argumentCount: call.argumentCount)
      again.command.append("EVAL")
      again.command.append(script.text)
      again.command.append(encoded: Array(call.command.bytes[call.tailStart...]))
      again.script = nil
      return start(again)
    }
    again.redirects += 1
    if again.redirects <= RedisClient.redirectsMaximum, let redirect = router.redirect(error, from: node) {
      switch redirect {
      case .moved(let target):
        generation &+= 1
        if send(again, to: target) { return }
      case .ask(let target):
        if target < router.connections.count, router.connections[target].request(["ASKING"]) != nil,
          send(again, to: target)
        {
          return
        }
      case .later:
        let milliseconds = RedisClient.laterMilliseconds << (again.redirects - 1)
        again.notBefore = loop.now.monotonic.adding(milliseconds: milliseconds)
        // Its owner's turn sends it.
        loop.schedule(afterMilliseconds: milliseconds) {}
      }
      waiting.append(again)
      return
    }
    call.then(.failure(Failure(text: "\(error)", isForeignData: error.kind == .foreignData)))
  }

  private func dropLate() {
    let now = loop.now.monotonic
    fail { $0.deadline <= now }
  }

  private func fail(_ isOver: (Call) -> Bool) {
    var over: [Call] = []
    if waiting.contains(where: isOver) {
      over = waiting.filter(isOver)
      waiting.removeAll(where: isOver)
    }
    for node in sent.indices {
      // In the order sent: callers send their next commands in the same order.
      for (tag, call) in sent[node].filter({ isOver($0.value) }).sorted(by: { $0.key < $1.key }) {
        over.append(call)
        sent[node][tag] = nil
      }
    }
    let text = lastFailure ?? "no answer within \(timeoutMilliseconds) ms"
    for call in over { call.then(.failure(Failure(text: text))) }
  }
}
