package import Logging
import PushCore
package import PushIO
import PushLane
import Synchronization

/// The work of a consumer beside the lanes, on its thread: it has its own connections.
package protocol ConsumerLoop: AnyObject, SendableMetatype {
  associatedtype Settings: Sendable
  associatedtype Counters: ConsumerCounters

  /// Of its thread, for output.
  static var name: String { get }
  /// What changes its state so often that only the last state is logged: the starts of notices.
  static var noticeSubjects: [String] { get }

  /// - Parameters:
  ///   - seed: of all its random numbers.
  ///   - notice: receives state changes; of single messages only those that are given up.
  init(loop: EventLoop, settings: Settings, seed: UInt64, notice: @escaping (Logger.Level, String) -> Void)

  var counters: Counters { get }
  /// Checks from now on whether messages wait in its queues, for `isExhausted`.
  func watchUntilEmpty()
  /// No message waits in its queues or is in progress.
  var isExhausted: Bool { get }
  /// One turn, after the loop's poll.
  func turn()
  /// Takes no more messages, and finishes those it has until the drain's deadline.
  func drain()
  /// Nothing is left to finish, or the deadline has passed.
  var isDrained: Bool { get }
  /// Closes all connections: unacknowledged messages are requeued. Keep turning until `isClosed`.
  func close()
  var isClosed: Bool { get }
}

/// What a consumer has counted; at first nothing.
package protocol ConsumerCounters: Sendable {
  init()
}

/// A consumer of a worker beside the lanes, on a thread of its own. This is the interface for other threads.
package final class QueueConsumer<Loop: ConsumerLoop>: Sendable {
  private struct State {
    var mailbox: Mailbox?
    var thread: LoopThread?
    var isDrainWanted = false
    var counters = Loop.Counters()
    var isExhausted = false
  }

  private let settings: Loop.Settings
  private let logger: Logger
  private let watchesUntilEmpty: Bool
  private let state = Mutex(State())

  /// - Parameter untilEmpty: check whether messages wait in its queues, for `isExhausted`.
  package init(_ settings: Loop.Settings, logger: Logger, untilEmpty: Bool = false) {
    self.settings = settings
    self.logger = logger
    watchesUntilEmpty = untilEmpty
  }

  /// Starts the thread, which connects. Call it once.
  package func start(_ wallClock: WallClock) {
    let thread = LoopThread(name: Loop.name) { [self] in run(wallClock) }
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

  package var counters: Loop.Counters { state.withLock { $0.counters } }

  /// No message waits in its queues or is in progress. Meaningless without `untilEmpty`.
  package var isExhausted: Bool { state.withLock { $0.isExhausted } }

  private func run(_ wallClock: WallClock) {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop(wallClock: wallClock)
    } catch {
      // Messages stay in their queues.
      logger.critical("the consumer of \(Loop.name) could not start: \(error)")
      return
    }
    work(on: loop, seed: .random(in: .min ... .max)) { [logger] level, text in
      logger.log(level: level, "\(text)", metadata: ["lane": "\(Loop.name)"])
    }.run()
  }

  /// The work of its thread, until it is drained.
  /// - Parameters:
  ///   - seed: of all its random numbers.
  ///   - log: receives state changes; of single messages only those that are given up.
  package func work(
    on loop: EventLoop, seed: UInt64, log: @escaping (Logger.Level, String) -> Void
  ) -> any LoopWork {
    let notices = ConsumerNotices(subjects: Loop.noticeSubjects, log: log)
    let consumer = Loop(loop: loop, settings: settings, seed: seed) { level, text in
      notices.report(level, text, now: loop.now)
    }
    return Work(owner: self, loop: loop, consumer: consumer, notices: notices)
  }

  private final class Work: LoopWork {
    let loop: EventLoop
    private let owner: QueueConsumer
    private let consumer: Loop
    private let notices: ConsumerNotices
    /// Deadline of the close; nil: not closing.
    private var closeDeadline: Instant?

    /// Between checks of the deadlines at most.
    let waitMilliseconds = 100
    private static var closeMilliseconds: Int64 { 1_000 }

    init(owner: QueueConsumer, loop: EventLoop, consumer: Loop, notices: ConsumerNotices) {
      self.owner = owner
      self.loop = loop
      self.consumer = consumer
      self.notices = notices
      owner.state.withLock { $0.mailbox = loop.mailbox }
      if owner.watchesUntilEmpty { consumer.watchUntilEmpty() }
    }

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
      closeDeadline = loop.now.monotonic.adding(milliseconds: Work.closeMilliseconds)
      return true
    }

    private func isOver(_ deadline: Instant) -> Bool {
      guard consumer.isClosed || loop.now.monotonic >= deadline else { return false }
      owner.state.withLock { $0.mailbox = nil }
      return true
    }
  }
}
