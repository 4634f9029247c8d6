package import Logging
package import PushCore
import PushIO
import Synchronization

/// The thread behind the gateway's HTTP server, with its connections to RabbitMQ and Redis. Its methods may be called from any thread.
package final class GatewayBackend: Sendable {
  /// The state that probes and metrics report.
  package struct Status: Sendable {
    package var isRabbitMQReady = false
    package var isRedisConnected = false
    /// Exchanges and queues that refuse what it publishes.
    package var refusing: [String] = []
    package var confirmed: UInt64 = 0
    package var unconfirmed: UInt64 = 0
    /// Published messages that RabbitMQ has neither confirmed nor refused yet.
    package var open = 0
    /// Jobs and registrations that were numbered by the gateway's clock instead of Redis.
    package var numberedLocally: UInt64 = 0
    /// When the keys were last read, Unix seconds; nil: not yet.
    package var keysReadAt: Int64?
    package var readers = 0
    /// Bytes of outcomes that readers have not taken.
    package var outcomeBytes = 0
    /// So many messages wait for their confirms that none is published.
    package var isFull = false
  }

  private typealias Letter = @Sendable (GatewayBackendLoop?) -> Void

  private struct State {
    var letters: [Letter] = []
    var mailbox: Mailbox?
    var isDrainAnnounced = false
    var isDraining = false
    /// Resumed when the thread ends.
    var whenEnded: CheckedContinuation<Void, Never>?
    var hasEnded = false
    /// The thread runs no more letters.
    var isOver = false
    var status = Status()
  }

  package let keys = KeyRing()
  private let wallClock = WallClock()
  private let settings: GatewaySettings
  private let logger: Logger
  private let afterTurn: @Sendable (@escaping @Sendable () -> Void) -> Void
  private let state = Mutex(State())
  private let thread = Mutex<LoopThread?>(nil)

  private static let waitMilliseconds = 50
  private static let closeMilliseconds: Int64 = 1_000
  /// The connections have as long to close even where the time of the drain is over.
  private static let closeMillisecondsMinimum: Int64 = 100

  /// - Parameter afterTurn: runs work, soon, after what the server's event loop has in hand. All requests of a loop's turn then wake the
  ///   thread once, and share its writes to RabbitMQ and Redis; a first request that woke it would have a turn of its own.
  package init(
    _ settings: GatewaySettings, logger: Logger, afterTurn: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) {
    self.settings = settings
    self.logger = logger
    self.afterTurn = afterTurn
  }

  /// Starts the thread, which connects to RabbitMQ and Redis. Call once.
  package func start() {
    thread.withLock {
      $0 = LoopThread(name: "gateway") { [self] in
        run()
        state.withLock { state in
          state.hasEnded = true
          return state.whenEnded.take()
        }?.resume()
      }
    }
  }

  /// The time of the drain begins: what `stop` waits for must be done within it.
  package func announceDrain() { state.withLock { $0.isDrainAnnounced = true } }

  /// Answers open requests, closes the connections and ends the thread. Call once, after `start`.
  package func stop() async {
    await withCheckedContinuation { continuation in
      let (hasEnded, mailbox) = state.withLock { state in
        state.isDrainAnnounced = true
        state.isDraining = true
        if !state.hasEnded { state.whenEnded = continuation }
        return (state.hasEnded, state.mailbox)
      }
      if hasEnded { continuation.resume() }
      mailbox?.wake()
    }
    thread.withLock { $0.take() }?.join()
  }

  /// The current time, by Redis' clock where this machine's is off.
  package var unixMilliseconds: Int64 { wallClock.unixMilliseconds }

  package var status: Status { state.withLock(\.status) }

  // MARK: - Requests

  /// Publishes messages for a key. Returns the result of each.
  package func publish(_ messages: [GatewayMessage], of key: APIKey) async -> [PublishResult] {
    await withCheckedContinuation { continuation in
      post(isTurn: messages.count > 1) { backend in
        guard let backend else { return continuation.resume(returning: messages.map { _ in .disconnected }) }
        backend.publish(messages, of: key.id) { continuation.resume(returning: $0) }
      }
    }
  }

  /// The time to date a registration with, Unix milliseconds: not before one that was answered earlier, at whichever gateway.
  package func takeTime() async -> Int64 {
    await withCheckedContinuation { continuation in
      post { [self] backend in
        guard let backend else { return continuation.resume(returning: unixMilliseconds) }
        backend.takeTime { continuation.resume(returning: $0) }
      }
    }
  }

  /// Runs a request on the thread and returns its result.
  package func ask<Value: Sendable>(
    _ question: @escaping @Sendable (GatewayBackendLoop, @escaping GatewayBackendLoop.Then<Value>) -> Void
  ) async throws(GatewayFailure) -> Value {
    let result: Result<Value, GatewayFailure> = await withCheckedContinuation { continuation in
      post { backend in
        guard let backend else {
          return continuation.resume(returning: .failure(.unavailable("the gateway is stopping")))
        }
        question(backend) { continuation.resume(returning: $0) }
      }
    }
    return try result.get()
  }

  /// Reads the API keys again, at most twice a second. Returns whether that worked.
  package func reloadKeys() async -> Bool {
    await withCheckedContinuation { continuation in
      post { backend in
        guard let backend else { return continuation.resume(returning: false) }
        backend.keys.readSoon { continuation.resume(returning: $0) }
      }
    }
  }

  /// Streams the outcomes of a scope. Returns once RabbitMQ delivers them.
  /// - Parameters:
  ///   - after: the offset in the results log before the first outcome; nil: only new outcomes.
  ///   - key: the reader's API key.
  package func outcomes(
    of scope: AppScope, after: Int64?, key: APIKey
  ) async throws(OutcomeRefusal) -> OutcomeReader {
    let events = OutcomeReader()
    let refusal: OutcomeRefusal? = await withCheckedContinuation { continuation in
      post { backend in
        guard let backend else { return continuation.resume(returning: .disconnected) }
        backend.outcomes.add(
          OutcomeFeed.Reader(scope: scope, after: after, key: key.id, events: events) {
            continuation.resume(returning: $0)
          })
      }
    }
    if let refusal { throw refusal }
    return events
  }

  /// Acknowledges outcomes after they were written to their reader.
  package func acknowledge(_ deliveries: [OutcomeDelivery]) {
    guard !deliveries.isEmpty else { return }
    post { backend in
      for delivery in deliveries { backend?.outcomes.acknowledge(delivery) }
    }
  }

  /// Frees the place of a reader that nobody reads any more.
  package func remove(_ reader: OutcomeReader) {
    post { $0?.outcomes.remove(reader) }
  }

  /// - Parameter isTurn: the letter is worth a turn of the thread, and must not wait for others.
  private func post(isTurn: Bool = false, _ letter: @escaping Letter) {
    let (isTaken, mailbox) = state.withLock { state -> (Bool, Mailbox?) in
      guard !state.isOver else { return (false, nil) }
      state.letters.append(letter)
      // Only the first letter has to wake the thread.
      return (true, isTurn || state.letters.count == 1 ? state.mailbox : nil)
    }
    if !isTaken { letter(nil) }
    guard let mailbox else { return }
    if isTurn { mailbox.wake() } else { afterTurn { mailbox.wake() } }
  }

  // MARK: - The thread

  private func run() {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop(wallClock: wallClock)
    } catch {
      logger.critical("the gateway could not start: \(error)")
      return finish()
    }
    state.withLock { $0.mailbox = loop.mailbox }
    let backend = GatewayBackendLoop(loop: loop, settings: settings, ring: keys) { [logger] level, text in
      logger.log(level: level, "\(text)")
    }
    var deadline = Instant.distantFuture
    while true {
      turn(loop, backend)
      let (isAnnounced, isDraining) = state.withLock { ($0.isDrainAnnounced, $0.isDraining) }
      if isAnnounced, deadline == .distantFuture {
        deadline = loop.now.monotonic.adding(milliseconds: settings.drainTimeoutMilliseconds)
      }
      if isDraining, backend.isIdle || deadline <= loop.now.monotonic { break }
    }
    finish()
    backend.close()
    let end = min(
      loop.now.monotonic.adding(milliseconds: GatewayBackend.closeMilliseconds),
      max(deadline, loop.now.monotonic.adding(milliseconds: GatewayBackend.closeMillisecondsMinimum)))
    while !backend.isClosed, loop.now.monotonic < end { turn(loop, backend) }
  }

  private func turn(_ loop: EventLoop, _ backend: GatewayBackendLoop) {
    loop.poll(maximumWaitMilliseconds: backend.hasWork ? 0 : GatewayBackend.waitMilliseconds)
    let letters = state.withLock { state in
      defer { state.letters = [] }
      return state.letters
    }
    for letter in letters { letter(backend) }
    backend.turn()
    loop.flush()
    backend.publisher.answer()
    state.withLock { state in
      state.status = Status(
        isRabbitMQReady: backend.publisher.isReady, isRedisConnected: backend.isRedisConnected,
        refusing: backend.publisher.refusing, confirmed: backend.publisher.confirmedCount,
        unconfirmed: backend.publisher.unconfirmedCount,
        open: backend.publisher.openCount, numberedLocally: backend.numberedLocally,
        keysReadAt: backend.keys.readAt, readers: backend.outcomes.readerCount,
        outcomeBytes: backend.outcomes.heldBytes, isFull: backend.publisher.isFull)
    }
  }

  private func finish() {
    let late = state.withLock { state in
      state.isOver = true
      defer { state.letters = [] }
      return state.letters
    }
    for letter in late { letter(nil) }
  }
}
