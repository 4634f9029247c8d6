package import Logging
import PushCore
package import PushCredentials
package import PushIO
package import PushLane
import Synchronization

/// The channel consumer of a worker: a thread beside the lanes with its own connections. It answers the request queue
/// `push.channels` and the lanes' questions about storage policies. This is the interface for other threads.
package final class ChannelConsumer: Sendable {
  private struct State {
    var mailbox: Mailbox?
    var thread: LoopThread?
    var isDrainWanted = false
    var credentials: Credentials?
    /// Names that stay revoked over the reload.
    var revoked: Set<String> = []
    /// Revoked credentials since the last reload, by name.
    var revocations: [String] = []
    var counters = ChannelCounters()
    var isExhausted = false
  }

  private let settings: ChannelConsumerSettings
  private let cache: ChannelPolicyCache
  private let logger: Logger
  private let watchesUntilEmpty: Bool
  private let state = Mutex(State())

  /// Longest interval between checks of the client's deadlines.
  private static let waitMilliseconds = 100
  private static let closeMilliseconds: Int64 = 1_000

  /// - Parameter untilEmpty: check whether requests wait in the queue, for `isExhausted`.
  package init(
    _ settings: ChannelConsumerSettings, cache: ChannelPolicyCache, logger: Logger, untilEmpty: Bool = false
  ) {
    watchesUntilEmpty = untilEmpty
    self.settings = settings
    self.cache = cache
    self.logger = logger
  }

  /// Starts the thread, which connects. Call it once.
  package func start(credentials: Credentials, _ wallClock: WallClock) {
    let thread = LoopThread(name: "channels") { [self] in run(credentials, wallClock) }
    state.withLock { $0.thread = thread }
  }

  /// Uses these credentials from now on.
  package func reload(_ credentials: Credentials, revoked: Set<String> = []) {
    let mailbox = state.withLock { state in
      state.credentials = credentials
      state.revoked = revoked
      state.revocations = []
      return state.mailbox
    }
    mailbox?.wake()
  }

  /// Closes this credential's connections now, and does not use it until a reload without it: its requests wait.
  package func revoke(credential: String) {
    let mailbox = state.withLock { state in
      state.revocations.append(credential)
      return state.mailbox
    }
    mailbox?.wake()
  }

  /// Takes no more requests, and finishes those it has until the drain's deadline.
  package func drain() {
    let mailbox = state.withLock { state in
      state.isDrainWanted = true
      return state.mailbox
    }
    mailbox?.wake()
  }

  /// Returns once the thread has ended, after `drain`. Blocks.
  package func join() {
    state.withLock { $0.thread.take() }?.join()
  }

  package var counters: ChannelCounters { state.withLock { $0.counters } }

  /// No request waits in the queue or is in progress. Meaningless without `untilEmpty`.
  package var isExhausted: Bool { state.withLock { $0.isExhausted } }

  private func run(_ credentials: Credentials, _ wallClock: WallClock) {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop(wallClock: wallClock)
    } catch {
      // Lanes wait a moment for each policy, without success; requests stay in their queue.
      logger.critical("the channel consumer could not start: \(error)")
      return
    }
    work(on: loop, credentials: credentials, seed: .random(in: .min ... .max)) { [logger] level, text in
      logger.log(level: level, "\(text)", metadata: ["lane": "channels"])
    }.run()
  }

  /// The work of its thread, until it is drained.
  /// - Parameters:
  ///   - seed: of all its random numbers.
  ///   - log: receives state changes, never single requests.
  package func work(
    on loop: EventLoop, credentials: Credentials, seed: UInt64, log: @escaping (Logger.Level, String) -> Void
  ) -> any LoopWork {
    let quiet = LogNotices()
    let consumer = ChannelConsumerLoop(
      loop: loop, settings: settings, credentials: credentials, cache: cache, seed: seed
    ) { level, text in
      // Log every event of a channel, but a connection's state only when it changes.
      if text.hasPrefix("rabbitmq"), quiet.report("rabbitmq", text, now: loop.now.monotonic) == nil { return }
      log(level, text)
    }
    return Work(channels: self, loop: loop, consumer: consumer)
  }

  private final class Work: LoopWork {
    let loop: EventLoop
    private let channels: ChannelConsumer
    private let consumer: ChannelConsumerLoop
    /// Deadline of the close; nil: not closing.
    private var closeDeadline: Instant?

    init(channels: ChannelConsumer, loop: EventLoop, consumer: ChannelConsumerLoop) {
      self.channels = channels
      self.loop = loop
      self.consumer = consumer
      channels.state.withLock { $0.mailbox = loop.mailbox }
      channels.cache.attach(loop.mailbox)
      if channels.watchesUntilEmpty { consumer.watchUntilEmpty() }
    }

    var waitMilliseconds: Int { ChannelConsumer.waitMilliseconds }

    func turn() -> Bool {
      loop.poll(maximumWaitMilliseconds: waitMilliseconds)
      consumer.turn()
      loop.flush()
      if let closeDeadline { return !isOver(closeDeadline) }
      takeLetters()
      guard consumer.isDrained else { return true }
      channels.cache.attach(nil)
      consumer.close()
      closeDeadline = loop.now.monotonic.adding(milliseconds: ChannelConsumer.closeMilliseconds)
      return true
    }

    private func takeLetters() {
      let (isDrainWanted, credentials, revoked, revocations) = channels.state.withLock { state in
        state.counters = consumer.counters
        state.isExhausted = consumer.isExhausted
        defer { state.revocations = [] }
        return (state.isDrainWanted, state.credentials.take(), state.revoked, state.revocations)
      }
      if let credentials { consumer.replaceCredentials(credentials, revoked: revoked) }
      // After the reload, which knows only earlier ones.
      for credential in revocations { consumer.revoke(credential: credential) }
      if isDrainWanted { consumer.drain() }
    }

    private func isOver(_ deadline: Instant) -> Bool {
      guard consumer.isClosed || loop.now.monotonic >= deadline else { return false }
      channels.state.withLock { $0.mailbox = nil }
      return true
    }
  }
}
