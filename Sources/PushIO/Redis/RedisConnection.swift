import PushCore

/// One pipelined connection to a Redis server, which connects, logs in and reconnects by itself.
///
/// Commands are answered strictly in order. Each carries its owner's tag and ends in exactly one event: a reply, or a loss. The owner
/// pulls: `nextEvent` returns what came, and nothing calls the owner. For commands that are not hot there is `request`, which makes its own
/// tags.
///
/// Not Sendable: it belongs to its loop's thread. Its owner limits the waiting commands (`waitingCount`), the reader limits a reply, and
/// the transport limits received bytes.
package final class RedisConnection {
  private enum Phase {
    /// Not connecting yet, or between two tries. → connecting
    case idle
    /// The transport is opening. → greeting, idle
    case connecting
    /// Waiting for the greeting's replies; this many came. → ready, idle
    case greeting(answered: Int)
    /// Commands flow. → draining
    case ready
    /// Lost: replies that came before are reported, then the lost commands, then the reason. → idle
    case draining(RedisError)
    /// `close()` was called.
    case closed
  }

  /// Tags made by `request` have this bit; owners' tags do not.
  package static let requestBit: UInt64 = 1 << 63

  package private(set) var configuration: RedisConfiguration
  /// Replies so far.
  package private(set) var replyCount: UInt64 = 0
  /// The loop's turn in which bytes came last.
  package private(set) var receivedTurn: UInt64 = 0
  /// Connections that became ready.
  package private(set) var readyCount: UInt64 = 0

  private let loop: EventLoop
  private let tls: TLSContext?
  private let scripts: [String]
  private let greeting: RedisGreeting
  private let limits: RedisReader.Limits
  private var reader: RedisReader
  private var phase = Phase.idle
  private var transport: Transport?
  private var tags = RingBuffer<UInt64>(growingFrom: 256)
  private var digests: [[UInt8]]
  private var isReadyUnreported = false
  private var unreportedDisconnect: RedisError?
  private var retryTimer: TimerToken?
  private var watchTimer: TimerToken?
  private var backoff: Backoff
  private var random: SeededRandom
  private var nextRequest: UInt64 = 0
  private var requestCommand = RedisCommand()
  private var delegateProxy: TransportDelegateProxy?

  /// `scripts` are loaded after every connect. `tls` is required for `rediss://`. `seed` spreads workers' reconnects. `requiresPrimary`: a
  /// server that says it is a replica is refused.
  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, scripts: [String] = [], seed: UInt64,
    requiresPrimary: Bool = false, limits: RedisReader.Limits = RedisReader.Limits()
  ) {
    precondition(!configuration.usesTLS || tls != nil, "rediss:// needs a TLS context")
    self.loop = loop
    self.configuration = configuration
    self.tls = configuration.usesTLS ? tls : nil
    self.scripts = scripts
    self.limits = limits
    greeting = RedisGreeting(configuration: configuration, scripts: scripts, requiresPrimary: requiresPrimary)
    reader = RedisReader(limits: limits)
    digests = Array(repeating: [], count: scripts.count)
    backoff = Backoff(
      initialMilliseconds: configuration.reconnectDelayMinimumMilliseconds,
      maximumMilliseconds: configuration.reconnectDelayMaximumMilliseconds)
    random = SeededRandom(seed: seed)
  }

  deinit {
    // Timers reference this object unowned, so they end with it.
    cancelTimers()
    transport?.delegate = nil
    transport?.abort()
  }

  package var isReady: Bool {
    if case .ready = phase { true } else { false }
  }

  /// Neither connected nor connecting.
  package var isIdle: Bool {
    if case .idle = phase { true } else { false }
  }

  /// `close()` was called.
  package var isClosed: Bool {
    if case .closed = phase { true } else { false }
  }

  /// Commands that were sent and have no event yet.
  package var waitingCount: Int { tags.count }

  /// SHA-1 of a script, 40 hex digits, as the server gave it; empty before the first `ready`.
  package func scriptDigest(_ index: Int) -> [UInt8] { digests[index] }

  /// Starts to connect; the result is an event.
  package func connect() {
    guard case .idle = phase, retryTimer == nil else { return }
    phase = .connecting
    // A new one for each connection, so that bytes of two connections never mix.
    reader = RedisReader(limits: limits)
    var options = ConnectOptions()
    options.connectTimeoutMilliseconds = configuration.connectTimeoutMilliseconds
    let endpoint =
      switch configuration.address {
      case .network(let host, let port): Endpoint(host: host, port: port)
      case .unix(let path): Endpoint(unixPath: path)
      }
    let delegateProxy = self.delegateProxy ?? TransportDelegateProxy(of: self)
    self.delegateProxy = delegateProxy
    transport = Transport.connect(loop: loop, to: endpoint, tls: tls, options: options, delegate: delegateProxy)
  }

  /// Closes for good: writes what was sent, and reports nothing more.
  package func close() {
    cancelTimers()
    phase = .closed
    transport?.delegate = nil
    transport?.close()
    transport = nil
    tags.removeAll()
    isReadyUnreported = false
    unreportedDisconnect = nil
  }

  /// Connects to another server, now or with the next try. Waiting commands are lost.
  package func move(to address: RedisConfiguration.Address) {
    configuration.address = address
    reconnect()
  }

  /// Closes this connection and makes another one, resolving the address again. Waiting commands are lost.
  package func reconnect() {
    switch phase {
    case .ready, .greeting, .connecting:
      lose(.unreachable(server: configuration.serverDescription, cause: "given up"))
    case .idle, .draining, .closed:
      break
    }
  }

  /// Queues a command; the loop's next flush sends it. false: not ready, nothing was queued.
  package func send(_ command: borrowing RedisCommand, tag: UInt64) -> Bool {
    guard case .ready = phase, let transport else { return false }
    transport.outbound.append(command.bytes.span)
    transport.setNeedsFlush()
    tags.append(tag)
    return true
  }

  /// Any command that is not hot. Returns the tag of its `reply` or `lost` event; nil if not ready. `last`: one more argument, of any
  /// bytes.
  package func request(_ arguments: [String], last: [UInt8]? = nil) -> UInt64? {
    requestCommand.begin(argumentCount: arguments.count + (last == nil ? 0 : 1))
    for argument in arguments { requestCommand.append(argument) }
    if let last { requestCommand.append(last) }
    let tag = RedisConnection.requestBit | nextRequest
    guard send(requestCommand, tag: tag) else { return nil }
    nextRequest = (nextRequest + 1) & (RedisConnection.requestBit - 1)
    return tag
  }

  /// Sends SCRIPT LOAD again, after NOSCRIPT. Returns the command's tag.
  package func reloadScript(_ index: Int) -> UInt64? {
    request(["SCRIPT", "LOAD", scripts[index]])
  }

  // MARK: - Events

  /// The next event of this turn; nil once everything is reported. A reply's values are readable until the next call.
  package func nextEvent() -> RedisEvent? {
    if let error = unreportedDisconnect {
      unreportedDisconnect = nil
      return .disconnected(error)
    }
    if isReadyUnreported {
      isReadyUnreported = false
      return .ready
    }
    switch phase {
    case .idle, .connecting, .greeting, .closed:
      return nil
    case .ready:
      guard takeReply() else {
        if case .draining = phase { return nextEvent() }
        return nil
      }
      if let tag = tags.popFirst() { return .reply(tag: tag, head: reader.value(at: 0)) }
      lose(.badReply(server: configuration.serverDescription, detail: "a reply that nothing asked for"))
      return nextEvent()
    case .draining(let error):
      if !tags.isEmpty, takeReply(), let tag = tags.popFirst() {
        return .reply(tag: tag, head: reader.value(at: 0))
      }
      if let tag = tags.popFirst() { return .lost(tag: tag) }
      transport = nil
      phase = .idle
      return .disconnected(error)
    }
  }

  /// The number of values in the last reply; the first one is its head.
  package var valueCount: Int { reader.valueCount }

  package func value(at index: Int) -> RedisValue { reader.value(at: index) }

  /// The text of a bulk, status or error of the last reply.
  package func withText<Result, Failure: Error>(
    of value: RedisValue, _ body: (Span<UInt8>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try reader.withText(of: value, body)
  }

  /// A copy of the last reply.
  package func copyReply() -> RedisReply {
    var index = 0
    return copyValue(&index)
  }

  private func copyValue(_ index: inout Int) -> RedisReply {
    let value = reader.value(at: index)
    index += 1
    switch value.kind {
    case .integer: return .integer(value.integer)
    case .null: return .null
    case .bulk: return .bulk(copyText(value))
    case .status: return .status(String(decoding: copyText(value), as: UTF8.self))
    case .error: return .error(reader.withText(of: value) { RedisServerError($0) })
    case .array:
      var values: [RedisReply] = []
      for _ in 0..<value.integer { values.append(copyValue(&index)) }
      return .array(values)
    }
  }

  private func copyText(_ value: RedisValue) -> [UInt8] {
    reader.withText(of: value) { text in
      var bytes: [UInt8] = []
      bytes.reserveCapacity(text.count)
      for index in text.indices { bytes.append(text[index]) }
      return bytes
    }
  }

  /// Parses one received reply. A broken one ends the connection.
  private func takeReply() -> Bool {
    guard let transport else { return false }
    do {
      guard try reader.nextReply(from: &transport.inbound) else { return false }
      replyCount &+= 1
      return true
    } catch {
      switch phase {
      case .ready, .greeting:
        lose(.badReply(server: configuration.serverDescription, detail: error.detail))
      case .draining, .idle, .connecting, .closed:
        break
      }
      return false
    }
  }

  // MARK: - Greeting

  private func greet(_ transport: Transport) {
    phase = .greeting(answered: 0)
    greeting.write(to: transport)
    transport.setNeedsFlush()
    watch(afterMilliseconds: configuration.connectTimeoutMilliseconds)
  }

  private func readGreeting() {
    while case .greeting(let answered) = phase, takeReply() {
      let step = greeting.steps[answered]
      let head = reader.value(at: 0)
      switch (head.kind, step) {
      case (.error, _) where !step.isOptional:
        let error = reader.withText(of: head) { RedisServerError($0) }
        // A user who may not call ROLE finds out when it writes.
        if step == .role, error.kind == .notPermitted { break }
        // Some servers repeat the arguments of a command that they do not know.
        let shown = step == .authenticate ? error.hiding(configuration.password) : error
        lose(.refused(server: configuration.serverDescription, step: step.name, shown))
        return
      case (.bulk, .loadScript(let index)) where head.text.count == 40:
        digests[index] = copyText(head)
      case (_, .loadScript):
        lose(.badReply(server: configuration.serverDescription, detail: "SCRIPT LOAD gave no digest"))
        return
      case (.array, .role) where reader.valueCount > 1:
        let role = String(decoding: copyText(reader.value(at: 1)), as: UTF8.self)
        guard role == "master" else {
          lose(.notPrimary(server: configuration.serverDescription, role: role))
          return
        }
      case (_, .role):
        lose(.badReply(server: configuration.serverDescription, detail: "ROLE gave no role"))
        return
      case (_, .authenticate), (_, .select), (_, .setName):
        break
      }
      if answered + 1 < greeting.steps.count {
        phase = .greeting(answered: answered + 1)
      } else {
        phase = .ready
        isReadyUnreported = true
        readyCount &+= 1
        backoff.succeeded()
        watch(afterMilliseconds: configuration.silenceTimeoutMilliseconds)
      }
    }
  }

  // MARK: - Losses

  /// Closes the transport, and reconnects later.
  private func lose(_ error: RedisError) {
    transport?.delegate = nil
    transport?.abort()
    ended(error)
  }

  /// The transport ended: reports it, and schedules the next try.
  private func ended(_ error: RedisError) {
    cancelTimers()
    switch phase {
    case .ready:
      phase = .draining(error)
    case .connecting, .greeting:
      transport = nil
      unreportedDisconnect = error
      phase = .idle
    case .idle, .draining, .closed:
      return
    }
    scheduleRetry()
  }

  private func scheduleRetry() {
    let delay = backoff.failed(random: random.next())
    retryTimer = loop.schedule(afterMilliseconds: delay) { [unowned self] in retry() }
  }

  private func retry() {
    retryTimer = nil
    if case .draining = phase {
      // The owner has not taken all events yet; it pulls every turn.
      retryTimer = loop.schedule(afterMilliseconds: 10) { [unowned self] in retry() }
    } else {
      connect()
    }
  }

  /// Checks later whether anything was answered, and gives up a peer that is silent.
  private func watch(afterMilliseconds delay: Int64) {
    if let watchTimer { loop.cancel(watchTimer) }
    let seen = replyCount
    let waited = !tags.isEmpty
    let end = loop.now.monotonic.adding(milliseconds: delay)
    watchTimer = loop.schedule(afterMilliseconds: delay) { [unowned self] in
      lookForSilence(seen: seen, waited: waited, milliseconds: delay, until: end)
    }
  }

  private func lookForSilence(seen: UInt64, waited: Bool, milliseconds: Int64, until end: Instant) {
    guard loop.polledAt >= end else {
      // The socket was last asked before the time was over: it is asked once more.
      watchTimer = loop.schedule(afterMilliseconds: 0) { [unowned self] in
        lookForSilence(seen: seen, waited: waited, milliseconds: milliseconds, until: end)
      }
      return
    }
    watchTimer = nil
    switch phase {
    case .greeting:
      lose(.silent(server: configuration.serverDescription, milliseconds: milliseconds))
    case .ready where waited && !tags.isEmpty && replyCount == seen && transport?.inbound.isEmpty != false:
      lose(.silent(server: configuration.serverDescription, milliseconds: milliseconds))
    case .ready:
      watch(afterMilliseconds: configuration.silenceTimeoutMilliseconds)
    case .idle, .connecting, .draining, .closed:
      break
    }
  }

  private func cancelTimers() {
    if let retryTimer { loop.cancel(retryTimer) }
    if let watchTimer { loop.cancel(watchTimer) }
    retryTimer = nil
    watchTimer = nil
  }
}

extension RedisConnection: TransportDelegate {
  package func transportDidOpen(_ transport: Transport) {
    guard transport === self.transport, case .connecting = phase else { return }
    greet(transport)
  }

  package func transportDidReceive(_ transport: Transport) {
    guard transport === self.transport else { return }
    receivedTurn = loop.turnCount
    readGreeting()
  }

  package func transportDidClose(_ transport: Transport, error: TransportError?) {
    guard transport === self.transport else { return }
    // An answer to AUTH may have come with the end; it explains more than the end does.
    readGreeting()
    guard transport === self.transport else { return }
    let cause = error?.description ?? "closed by the server"
    ended(.unreachable(server: configuration.serverDescription, cause: cause))
  }
}
