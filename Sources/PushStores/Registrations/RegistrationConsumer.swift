package import Logging
import PushCore
package import PushIO
import PushLane
import Synchronization

/// The registration consumer of a worker: a thread beside the lanes with its own connections. It consumes the queue
/// `push.registrations`. This is the interface for other threads.
package final class RegistrationConsumer: Sendable {
  private struct State {
    var mailbox: Mailbox?
    var thread: LoopThread?
    var isDrainWanted = false
    var counters = RegistrationCounters()
    var isExhausted = false
  }

  private let settings: RegistrationConsumerSettings
  private let logger: Logger
  private let watchesUntilEmpty: Bool
  private let state = Mutex(State())

  /// Longest interval between deadline checks.
  private static let waitMilliseconds = 100
  private static let closeMilliseconds: Int64 = 1_000

  /// - Parameter untilEmpty: check whether registrations wait in the queue, for `isExhausted`.
  package init(_ settings: RegistrationConsumerSettings, logger: Logger, untilEmpty: Bool = false) {
    self.settings = settings
    self.logger = logger
    watchesUntilEmpty = untilEmpty
  }

  /// Starts the thread, which connects. Call it once.
  package func start(_ wallClock: WallClock) {
    let thread = LoopThread(name: "registrations") { [self] in run(wallClock) }
    state.withLock { $0.thread = thread }
  }

  /// Takes no more registrations, and finishes those it has until the drain's deadline.
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

  package var counters: RegistrationCounters { state.withLock { $0.counters } }

  /// No registration waits in the queue or is in progress. Meaningless without `untilEmpty`.
  package var isExhausted: Bool { state.withLock { $0.isExhausted } }

  private func run(_ wallClock: WallClock) {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop(wallClock: wallClock)
    } catch {
      // Registrations stay in their queue.
      logger.critical("the registration consumer could not start: \(error)")
      return
    }
    work(on: loop, seed: .random(in: .min ... .max)) { [logger] level, text in
      logger.log(level: level, "\(text)", metadata: ["lane": "registrations"])
    }.run()
  }

  /// The work of its thread, until it is drained.
  /// - Parameters:
  ///   - seed: of all its random numbers.
  ///   - log: receives state changes, never single registrations.
  package func work(
    on loop: EventLoop, seed: UInt64, log: @escaping (Logger.Level, String) -> Void
  ) -> any LoopWork {
    let notices = ConsumerNotices(subjects: ["rabbitmq"], log: log)
    let consumer = RegistrationConsumerLoop(loop: loop, settings: settings, seed: seed) { level, text in
      notices.report(level, text, now: loop.now)
    }
    return Work(owner: self, loop: loop, consumer: consumer, notices: notices)
  }

  private final class Work: LoopWork {
    let loop: EventLoop
    private let owner: RegistrationConsumer
    private let consumer: RegistrationConsumerLoop
    private let notices: ConsumerNotices
    /// Deadline of the close; nil: not closing.
    private var closeDeadline: Instant?

    init(owner: RegistrationConsumer, loop: EventLoop, consumer: RegistrationConsumerLoop, notices: ConsumerNotices) {
      self.owner = owner
      self.loop = loop
      self.consumer = consumer
      self.notices = notices
      owner.state.withLock { $0.mailbox = loop.mailbox }
      if owner.watchesUntilEmpty { consumer.watchUntilEmpty() }
    }

    var waitMilliseconds: Int { RegistrationConsumer.waitMilliseconds }

    func turn() -> Bool {
      loop.poll(maximumWaitMilliseconds: waitMilliseconds)
      consumer.turn()
      notices.turn(now: loop.now)
      loop.flush()
      if let closeDeadline { return !isOver(closeDeadline) }
      let isDrainWanted = owner.state.withLock { state in
        state.counters = consumer.counters
        state.isExhausted = consumer.isExhausted
        return state.isDrainWanted
      }
      if isDrainWanted { consumer.drain() }
      guard consumer.isDrained else { return true }
      consumer.close()
      closeDeadline = loop.now.monotonic.adding(milliseconds: RegistrationConsumer.closeMilliseconds)
      return true
    }

    private func isOver(_ deadline: Instant) -> Bool {
      guard consumer.isClosed || loop.now.monotonic >= deadline else { return false }
      owner.state.withLock { $0.mailbox = nil }
      return true
    }
  }
}
