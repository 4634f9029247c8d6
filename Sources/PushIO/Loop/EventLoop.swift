package import PushCore

/// One thread's event loop: timers, a mailbox, and one write per transport and turn.
///
/// `while running { loop.poll(maximumWaitMilliseconds: …); lane.turn(); loop.flush() }`. Not Sendable: only `mailbox` is for other threads.
/// When the loop is freed, its transports and listeners are closed without a call to their delegates.
@safe
package final class EventLoop {
  /// The time of this turn: read once, after the wait. Its wall clock is corrected by `wallClock`.
  package private(set) var now: Now
  private let wallClock: WallClock
  /// What `wallClock` knew at its version, and this machine's own time of the turn.
  private var clocks: WallClockState
  private var clocksVersion: UInt64 = 0
  private var machine: Now
  /// When the loop last began to ask its sockets and heard of all that were ready. `now` may be much later, if the thread was not
  /// scheduled: what came between the two is read in the next turn.
  package private(set) var polledAt: Instant
  /// Work from other threads.
  package let mailbox: Mailbox
  /// Resolves names, on threads of its own.
  package let resolver: Resolver
  /// Turns so far.
  package private(set) var turnCount: UInt64 = 0
  /// How long the last turn worked: from the end of its wait to the next `poll`.
  package private(set) var lastTurnNanoseconds: Int64 = 0

  let kernel: any Kernel
  private var watches: Watches
  private var timers = TimerQueue()
  private var letters: [@Sendable (EventLoop) -> Void] = []
  /// Transports with bytes to write at the next flush, and the array that replaces it during a flush.
  private var unflushed: [any LoopMember] = []
  private var flushing: [any LoopMember] = []
  /// Transports with something to report at the next poll.
  private var deferred: [any LoopMember] = []
  private var running: [any LoopMember] = []
  /// Transports that stopped reading because their inbound queue is full.
  private var paused: [any LoopMember] = []
  /// Connecting transports, which nothing else in the loop retains.
  private var connecting: [ObjectIdentifier: any LoopMember] = [:]
  /// The receive buffer of all transports: bytes are copied to a queue of the right size.
  let receiveBuffer: UnsafeMutableRawBufferPointer
  private let wakeHandler: WakeHandler

  /// Maximum of events in one turn; others are reported in the next.
  static let eventsMaximum = 256
  /// Maximum that a turn reads from one transport.
  static let receiveBufferBytes = 256 * 1024

  /// - Parameter wallClock: corrects the time of day; shared by the loops of a process.
  package convenience init(wallClock: WallClock = WallClock()) throws(LoopError) {
    try self.init(mailboxCapacity: 4096, wallClock: wallClock, lookup: Resolver.systemLookup)
  }

  /// `lookup` replaces `getaddrinfo`, for tests.
  package convenience init(
    mailboxCapacity: Int, names: ResolverLimits = ResolverLimits(), wallClock: WallClock = WallClock(),
    lookup: @escaping Resolver.Lookup
  ) throws(LoopError) {
    let mailbox = try Mailbox(capacity: mailboxCapacity)
    self.init(try LinuxKernel(), mailbox, Resolver(mailbox: mailbox, limits: names, lookup: lookup), wallClock)
    if let descriptor = mailbox.wakeDescriptor {
      _ = try watches.add(descriptor, interest: .readable, handler: wakeHandler)
    }
  }

  /// A loop on a simulated kernel. It resolves no names, and posts to its mailbox wake nobody: `isWoken` says that something is in it.
  package convenience init(kernel: any Kernel, wallClock: WallClock = WallClock()) {
    let mailbox = Mailbox(capacity: 4096, wakeDescriptor: nil)
    let nobody: Resolver.Lookup = { host, _ in .failure(ResolverError(host: host, text: "there are no names here")) }
    self.init(kernel, mailbox, Resolver(mailbox: mailbox, limits: ResolverLimits(), lookup: nobody), wallClock)
  }

  private init(_ kernel: any Kernel, _ mailbox: Mailbox, _ resolver: Resolver, _ wallClock: WallClock) {
    self.kernel = kernel
    self.wallClock = wallClock
    clocks = wallClock.current
    self.mailbox = mailbox
    self.resolver = resolver
    watches = Watches(kernel)
    wakeHandler = WakeHandler()
    unsafe receiveBuffer = .allocate(byteCount: EventLoop.receiveBufferBytes, alignment: 64)
    machine = EventLoop.readClocks(kernel)
    now = machine
    polledAt = now.monotonic
    correctTime()
    resolver.loop = self
  }

  deinit {
    mailbox.close()
    resolver.end()
    for transport in connecting.values { transport.loopEnded() }
    for handler in watches.removeAll() { handler.loopEnded() }
    timers.removeAll()
    unsafe receiveBuffer.deallocate()
  }

  /// Waits up to `maximumWaitMilliseconds` for events (not at all if work is pending). Then it calls transports and listeners, and runs the
  /// mailbox and due timers.
  ///
  /// `spacingMicroseconds`: minimum time between the starts of two turns, less than a second; one turn handles everything that came in that
  /// time.
  package func poll(maximumWaitMilliseconds: Int, spacingMicroseconds: Int64 = 0) {
    let entered = kernel.monotonicNanoseconds
    if turnCount > 0 { lastTurnNanoseconds = entered &- now.monotonic.nanoseconds }
    let early = now.monotonic.nanoseconds &+ spacingMicroseconds * 1000 &- entered
    if spacingMicroseconds > 0, early > 0 { kernel.sleep(nanoseconds: early) }
    let eventCount = kernel.wait(milliseconds: waitMilliseconds(maximumWaitMilliseconds, from: entered))
    if eventCount < EventLoop.eventsMaximum {
      polledAt = Instant(nanoseconds: entered &+ (spacingMicroseconds > 0 ? max(0, early) : 0))
    }
    machine = EventLoop.readClocks(kernel)
    correctTime()
    turnCount &+= 1

    // Everything deferred so far runs now; what this turn defers runs in the next. So there is a turn between a transport's last bytes and
    // the report of its end.
    swap(&running, &deferred)
    for index in 0..<eventCount {
      guard let (handler, readiness) = watches.event(index) else { continue }
      handler.becameReady(readiness)
    }
    for index in running.indices { running[index].runDeferred() }
    running.removeAll(keepingCapacity: true)
    if wakeHandler.wasWoken || (mailbox.wakeDescriptor == nil && mailbox.isWoken) {
      wakeHandler.wasWoken = false
      mailbox.take(into: &letters)
      for letter in letters { letter(self) }
      letters.removeAll(keepingCapacity: true)
      resolver.deliver()
    }
    let sequence = timers.upcomingSequence
    while let action = timers.takeDue(at: now.monotonic, before: sequence) { action() }
  }

  /// Writes what transports have queued: one send each. Also resumes paused transports that have room again.
  package func flush() {
    swap(&flushing, &unflushed)
    for index in flushing.indices { flushing[index].flushOutbound() }
    flushing.removeAll(keepingCapacity: true)
    if !paused.isEmpty { paused.removeAll { $0.resumeReadingIfRoom() } }
  }

  /// Runs `action` inside a later `poll`, once. The time is coarse (milliseconds), but never early.
  @discardableResult
  package func schedule(afterMilliseconds delay: Int64, _ action: @escaping () -> Void) -> TimerToken {
    timers.schedule(at: now.monotonic.adding(milliseconds: max(0, delay)), action)
  }

  /// Cancels an action that did not run yet, and releases what it captured.
  package func cancel(_ token: TimerToken) {
    timers.cancel(token)
  }

  /// When the next turn is due by itself, at most this long from now; input or a post may make it earlier.
  package func nextTurn(maximumWaitMilliseconds: Int) -> Instant {
    now.monotonic.adding(
      milliseconds: Int64(waitMilliseconds(maximumWaitMilliseconds, from: now.monotonic.nanoseconds)))
  }

  /// The mailbox is not empty.
  package var isWoken: Bool { mailbox.isWoken }

  /// Actions that have not run yet.
  package var scheduledCount: Int { timers.count }

  /// Another clock's time, Unix milliseconds, as it is now.
  /// - Returns: how far it is ahead of this machine's own clock, milliseconds; negative: behind.
  @discardableResult
  package func heard(_ source: WallClockState.Source, unixMilliseconds: Int64, error: Int64 = 0) -> Int64 {
    let machine = EventLoop.readClocks(kernel)
    wallClock.heard(source, unixMilliseconds: unixMilliseconds, error: error, at: machine.monotonic)
    return unixMilliseconds &- machine.unixMilliseconds
  }

  /// Redis has told its time.
  package var hasRedisTime: Bool { clocks.hasRedisTime }

  /// Redis or APNs has told its time.
  package var hasConfirmedTime: Bool { clocks.isConfirmed }

  /// What is added to this machine's clock, milliseconds; 0: nothing.
  package var correctionMilliseconds: Int64 {
    learnTime()
    return clocks.correction(machine)
  }

  /// The time of this turn for provider tokens: APNs' where it is known to differ from `now`.
  package var tokenNow: Now {
    learnTime()
    return Now(monotonic: now.monotonic, unixMilliseconds: clocks.tokenTime(machine))
  }

  /// APNs' time of this turn, Unix seconds; nil: not known.
  package var apnsUnixSeconds: Int64? {
    learnTime()
    return clocks.apnsTime(machine).map { $0 / 1_000 }
  }

  // MARK: - For transports, listeners and other owners of descriptors

  /// Watches a descriptor. The loop retains the handler until `unregister`.
  package func register(
    _ fileDescriptor: Int32, interest: Readiness, handler: any ReadinessHandler
  ) throws(LoopError) -> Registration {
    try watches.add(fileDescriptor, interest: interest, handler: handler)
  }

  package func change(_ registration: Registration, interest: Readiness) {
    watches.change(registration, interest: interest)
  }

  /// Ends the watch. Call it before you close the descriptor.
  package func unregister(_ registration: Registration) {
    watches.remove(registration)
  }

  func suspend(_ registration: Registration) {
    watches.suspend(registration)
  }

  func resume(_ registration: Registration, interest: Readiness) -> Bool {
    watches.resume(registration, interest: interest)
  }

  func flushLater(_ member: any LoopMember) {
    unflushed.append(member)
  }

  func runLater(_ member: any LoopMember) {
    deferred.append(member)
  }

  func hold(_ member: any LoopMember) {
    connecting[ObjectIdentifier(member)] = member
  }

  func release(_ member: any LoopMember) {
    connecting[ObjectIdentifier(member)] = nil
  }

  func pause(_ member: any LoopMember) {
    paused.append(member)
  }

  // MARK: - Time

  private func waitMilliseconds(_ maximum: Int, from entered: Int64) -> Int32 {
    if !deferred.isEmpty || !unflushed.isEmpty { return 0 }
    var wait = Int64(max(0, maximum))
    if let earliest = timers.earliest {
      let left = max(0, earliest.nanoseconds &- entered)
      // Rounded up: a wait that ends just before its timer would waste a turn.
      wait = min(wait, left / 1_000_000 &+ (left % 1_000_000 == 0 ? 0 : 1))
    }
    return Int32(clamping: wait)
  }

  private static func readClocks(_ kernel: any Kernel) -> Now {
    Now(monotonic: Instant(nanoseconds: kernel.monotonicNanoseconds), unixMilliseconds: kernel.unixMilliseconds)
  }

  private func learnTime() {
    let version = wallClock.version
    guard version != clocksVersion else { return }
    clocksVersion = version
    clocks = wallClock.current
  }

  private func correctTime() {
    learnTime()
    now = Now(
      monotonic: machine.monotonic, unixMilliseconds: machine.unixMilliseconds &+ clocks.correction(machine))
  }
}

/// Runs when the mailbox was filled.
private final class WakeHandler: ReadinessHandler {
  var wasWoken = false

  func becameReady(_ readiness: Readiness) {
    wasWoken = true
  }

  func loopEnded() {}
}
