package import Logging
package import PushCore
import PushIO
import Synchronization

/// The thread behind the gateway's HTTP server, with its connections to RabbitMQ and Redis. This is its door for requests.
package final class GatewayBackend: Sendable {
  /// What probes and metrics tell.
  package struct Status: Sendable {
    package var isRabbitMQReady = false
    package var isRedisConnected = false
    package var confirmed: UInt64 = 0
    package var unconfirmed: UInt64 = 0
    /// Published, and neither confirmed nor refused.
    package var open = 0
    package var readers = 0
  }

  private typealias Letter = @Sendable (GatewayDesk?) -> Void

  private struct State {
    var letters: [Letter] = []
    var mailbox: Mailbox?
    var isDraining = false
    /// Waits for the end of the thread.
    var whenEnded: CheckedContinuation<Void, Never>?
    var hasEnded = false
    /// The thread takes no more letters.
    var isOver = false
    var status = Status()
  }

  package let keys = KeyRing()
  private let settings: GatewaySettings
  private let logger: Logger
  private let state = Mutex(State())
  private let thread = Mutex<LoopThread?>(nil)

  private static let waitMilliseconds = 50
  private static let closeMilliseconds: Int64 = 1_000

  package init(_ settings: GatewaySettings, logger: Logger) {
    self.settings = settings
    self.logger = logger
  }

  /// Starts the thread, which connects. Once.
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

  /// Answers what was asked, closes the connections and ends the thread. Once, after `start`.
  package func stop() async {
    await withCheckedContinuation { continuation in
      let (hasEnded, mailbox) = state.withLock { state in
        state.isDraining = true
        if !state.hasEnded { state.whenEnded = continuation }
        return (state.hasEnded, state.mailbox)
      }
      if hasEnded { continuation.resume() }
      mailbox?.wake()
    }
    thread.withLock { $0.take() }?.join()
  }

  package var status: Status { state.withLock(\.status) }

  // MARK: - Questions

  /// Publishes; tells of each message whether RabbitMQ confirmed it in time.
  package func publish(_ messages: [GatewayMessage]) async -> [Bool] {
    await withCheckedContinuation { continuation in
      post { desk in
        guard let desk else { return continuation.resume(returning: messages.map { _ in false }) }
        desk.publisher.publish(messages) { continuation.resume(returning: $0) }
      }
    }
  }

  /// Asks the desk on its thread.
  package func ask<Value: Sendable>(
    _ question: @escaping @Sendable (GatewayDesk, @escaping GatewayDesk.Then<Value>) -> Void
  ) async throws(GatewayFailure) -> Value {
    let result: Result<Value, GatewayFailure> = await withCheckedContinuation { continuation in
      post { desk in
        guard let desk else { return continuation.resume(returning: .failure(.unavailable("the gateway ends"))) }
        question(desk) { continuation.resume(returning: $0) }
      }
    }
    return try result.get()
  }

  /// Reads the keys again, at most twice a second.
  package func lookForKeys() async {
    await withCheckedContinuation { continuation in
      post { desk in
        guard let desk else { return continuation.resume() }
        desk.keys.look { continuation.resume() }
      }
    }
  }

  /// The outcomes of a scope from this number in the log on; nil: from now on. nil: there are too many readers.
  package func outcomes(of scope: AppScope, from: Int64?) async -> AsyncStream<OutcomeEvent>? {
    let (stream, events) = AsyncStream.makeStream(of: OutcomeEvent.self)
    let isTaken: Bool = await withCheckedContinuation { continuation in
      post { desk in
        let reader = OutcomeFeed.Reader(
          scope: scope, from: from,
          tell: { event in
            if case .terminated = events.yield(event) { false } else { true }
          },
          end: { events.finish() })
        continuation.resume(returning: desk?.outcomes.add(reader) ?? false)
      }
    }
    return isTaken ? stream : nil
  }

  /// An outcome was written to its reader.
  package func acknowledge(_ tag: UInt64, channel: UInt16) {
    post { $0?.outcomes.acknowledge(tag, channel: channel) }
  }

  private func post(_ letter: @escaping Letter) {
    let (isTaken, mailbox) = state.withLock { state -> (Bool, Mailbox?) in
      guard !state.isOver else { return (false, nil) }
      state.letters.append(letter)
      // Who posted the first one woke it.
      return (true, state.letters.count == 1 ? state.mailbox : nil)
    }
    if !isTaken { letter(nil) }
    mailbox?.wake()
  }

  // MARK: - The thread

  private func run() {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop()
    } catch {
      logger.critical("the gateway could not start: \(error)")
      return finish()
    }
    state.withLock { $0.mailbox = loop.mailbox }
    let desk = GatewayDesk(loop: loop, settings: settings, ring: keys) { [logger] level, text in
      logger.log(level: level, "\(text)")
    }
    var deadline: Instant?
    while true {
      turn(loop, desk)
      guard state.withLock(\.isDraining) else { continue }
      let end = deadline ?? loop.now.monotonic.adding(milliseconds: settings.drainTimeoutMilliseconds)
      deadline = end
      if desk.publisher.isIdle || end <= loop.now.monotonic { break }
    }
    finish()
    desk.close()
    let end = loop.now.monotonic.adding(milliseconds: GatewayBackend.closeMilliseconds)
    while !desk.isClosed, loop.now.monotonic < end { turn(loop, desk) }
  }

  private func turn(_ loop: EventLoop, _ desk: GatewayDesk) {
    loop.poll(maximumWaitMilliseconds: GatewayBackend.waitMilliseconds)
    let letters = state.withLock { state in
      defer { state.letters = [] }
      return state.letters
    }
    for letter in letters { letter(desk) }
    desk.turn()
    loop.flush()
    state.withLock { state in
      state.status = Status(
        isRabbitMQReady: desk.publisher.isReady, isRedisConnected: desk.isRedisConnected,
        confirmed: desk.publisher.confirmedCount, unconfirmed: desk.publisher.unconfirmedCount,
        open: desk.publisher.openCount, readers: desk.outcomes.readerCount)
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
