package import Logging
import PushCore
package import PushIO
import PushLane
import Synchronization

/// The expansion consumer of a worker: a thread beside the lanes with its own connections, which turns jobs for audiences into pages and
/// keeps their progress. This is its door for the others.
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

  /// The client looks at its deadlines at least so often.
  private static let waitMilliseconds = 100
  private static let closeMilliseconds: Int64 = 1_000

  /// - Parameter untilEmpty: it watches whether messages wait in its queues, for `isExhausted`.
  package init(_ settings: ExpansionSettings, logger: Logger, untilEmpty: Bool = false) {
    self.settings = settings
    self.logger = logger
    watchesUntilEmpty = untilEmpty
  }

  /// Starts the thread, which connects. Once.
  package func start() {
    let thread = LoopThread(name: "expansions") { [self] in run() }
    state.withLock { $0.thread = thread }
  }

  /// Takes no more messages, and finishes those that it has until the drain's time is over.
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

  /// No message waits in its queues, and none is on its way here. Tells nothing where it does not watch.
  package var isExhausted: Bool { state.withLock { $0.isExhausted } }

  private func run() {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop()
    } catch {
      // Audiences wait in their queue.
      logger.critical("the expansion consumer could not start: \(error)")
      return
    }
    work(on: loop, seed: .random(in: .min ... .max)) { [logger] level, text in
      logger.log(level: level, "\(text)", metadata: ["lane": "expansions"])
    }.run()
  }

  /// What its thread does, until it is drained.
  /// - Parameters:
  ///   - seed: of everything that it draws.
  ///   - log: hears of changes, never of messages.
  package func work(
    on loop: EventLoop, seed: UInt64, log: @escaping (Logger.Level, String) -> Void
  ) -> any LoopWork {
    let quiet = LogNotices()
    let consumer = ExpansionConsumerLoop(loop: loop, settings: settings, seed: seed) { level, text in
      // A connection's state is news once.
      let subject = ["rabbitmq", "redis"].first { text.hasPrefix($0) }
      if let subject, quiet.report(subject, text, now: loop.now.monotonic) == nil { return }
      log(level, text)
    }
    return Work(expansions: self, loop: loop, consumer: consumer)
  }

  private final class Work: LoopWork {
    let loop: EventLoop
    private let expansions: ExpansionConsumer
    private let consumer: ExpansionConsumerLoop
    /// It says goodbye, until then at most; nil: it works.
    private var closeDeadline: Instant?

    init(expansions: ExpansionConsumer, loop: EventLoop, consumer: ExpansionConsumerLoop) {
      self.expansions = expansions
      self.loop = loop
      self.consumer = consumer
      expansions.state.withLock { $0.mailbox = loop.mailbox }
      if expansions.watchesUntilEmpty { consumer.watchUntilEmpty() }
    }

    var waitMilliseconds: Int { ExpansionConsumer.waitMilliseconds }

    func turn() -> Bool {
      loop.poll(maximumWaitMilliseconds: waitMilliseconds)
      consumer.turn()
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
