package import Logging
import PushCore
package import PushIO
import PushLane
import Synchronization

/// The expansion consumer of a worker: a thread beside the lanes with its own connections. It turns jobs for audiences
/// into pages, and stores their progress. This is the interface for other threads.
package final class ExpansionConsumer: Sendable {
  private struct State {
    var mailbox: Mailbox?
    var thread: LoopThread?
    var isDrainWanted = false
    var counters = ExpansionCounters()
    var isExhausted = false
  }

  private let settings: ExpansionSettings
  private let logger: Logger
  private let watchesUntilEmpty: Bool
  private let state = Mutex(State())

  /// Longest interval between checks of the client's deadlines.
  private static let waitMilliseconds = 100
  private static let closeMilliseconds: Int64 = 1_000

  /// - Parameter untilEmpty: check whether messages wait in its queues, for `isExhausted`.
  package init(_ settings: ExpansionSettings, logger: Logger, untilEmpty: Bool = false) {
    self.settings = settings
    self.logger = logger
    watchesUntilEmpty = untilEmpty
  }

  /// Starts the thread, which connects. Call it once.
  package func start(_ wallClock: WallClock) {
    let thread = LoopThread(name: "expansions") { [self] in run(wallClock) }
    state.withLock { $0.thread = thread }
  }

  /// Takes no more messages, and finishes those it has until the drain's deadline.
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

  package var counters: ExpansionCounters { state.withLock { $0.counters } }

  /// No message waits in its queues or is in progress. Meaningless without `untilEmpty`.
  package var isExhausted: Bool { state.withLock { $0.isExhausted } }

  private func run(_ wallClock: WallClock) {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop(wallClock: wallClock)
    } catch {
      // Audiences wait in their queue.
      logger.critical("the expansion consumer could not start: \(error)")
      return
    }
    work(on: loop, seed: .random(in: .min ... .max)) { [logger] level, text in
      logger.log(level: level, "\(text)", metadata: ["lane": "expansions"])
    }.run()
  }

  /// The work of its thread, until it is drained.
  /// - Parameters:
  ///   - seed: of all its random numbers.
  ///   - log: receives state changes; of single messages only those that are given up.
  package func work(
    on loop: EventLoop, seed: UInt64, log: @escaping (Logger.Level, String) -> Void
  ) -> any LoopWork {
    let notices = ConsumerNotices(subjects: ["rabbitmq", "redis"], log: log)
    let consumer = ExpansionConsumerLoop(loop: loop, settings: settings, seed: seed) { level, text in
      notices.report(level, text, now: loop.now)
    }
    return Work(expansions: self, loop: loop, consumer: consumer, notices: notices)
  }

  private final class Work: LoopWork {
    let loop: EventLoop
    private let expansions: ExpansionConsumer
    private let consumer: ExpansionConsumerLoop
    private let notices: ConsumerNotices
    /// Deadline of the close; nil: not closing.
    private var closeDeadline: Instant?

    init(expansions: ExpansionConsumer, loop: EventLoop, consumer: ExpansionConsumerLoop, notices: ConsumerNotices) {
      self.expansions = expansions
      self.loop = loop
      self.consumer = consumer
      self.notices = notices
      expansions.state.withLock { $0.mailbox = loop.mailbox }
      if expansions.watchesUntilEmpty { consumer.watchUntilEmpty() }
    }

    var waitMilliseconds: Int { ExpansionConsumer.waitMilliseconds }

    func turn() -> Bool {
      loop.poll(maximumWaitMilliseconds: waitMilliseconds)
      consumer.turn()
      notices.turn(now: loop.now)
      loop.flush()
      if let closeDeadline { return !isOver(closeDeadline) }
      let isDrainWanted = expansions.state.withLock { state in
        state.counters = consumer.counters
        state.isExhausted = consumer.isExhausted
        return state.isDrainWanted
      }
      if isDrainWanted { consumer.drain() }
      guard consumer.isDrained else { return true }
      consumer.close()
      closeDeadline = loop.now.monotonic.adding(milliseconds: ExpansionConsumer.closeMilliseconds)
      return true
    }

    private func isOver(_ deadline: Instant) -> Bool {
      guard consumer.isClosed || loop.now.monotonic >= deadline else { return false }
      expansions.state.withLock { $0.mailbox = nil }
      return true
    }
  }
}
