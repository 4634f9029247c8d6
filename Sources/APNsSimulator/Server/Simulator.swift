import Dispatch
package import PushIO
import Synchronization

/// A simulated APNs for tests, on its own thread: strict or fast, with faults on demand.
///
/// Call `start`, send to its port, check `ledger`, call `stop`. All methods may be called from any thread.
///
/// ```swift
/// let credential = try SimulatorCredential()
/// var options = SimulatorOptions()
/// options.security = .ownAuthority(folder: folder)
/// options.keys = [try credential.registration()]
/// let apns = try Simulator(options)
/// let ports = try apns.start()
/// defer { apns.stop() }
/// // … send to https://localhost:\(ports.port), trusting ports.authorityFile, signed with credential …
/// #expect(apns.ledger.accepted == 1)
/// ```
public final class Simulator: Sendable {
  private struct Running {
    var thread: LoopThread
    var mailbox: Mailbox
    var flag: StopFlag
  }

  private let options: SimulatorOptions
  private let shared: LockedState
  private let running = Mutex<Running?>(nil)

  /// Prepares a simulator; it listens after `start`.
  public init(_ options: SimulatorOptions = SimulatorOptions()) throws(SimulatorError) {
    self.options = options
    shared = LockedState(try SimulatorState(options))
  }

  deinit {
    stop()
  }

  /// Opens all ports, then returns. After `stop` it may be started again.
  public func start() throws(SimulatorError) -> SimulatorPorts {
    let security = try SimulatorSecurity(options)
    return try running.withLock { [options, shared] running throws(SimulatorError) in
      precondition(running == nil, "a simulator is started once at a time")
      let start = SimulatorStart()
      let flag = StopFlag()
      let thread = LoopThread(name: "apns-simulator") {
        do throws(SimulatorError) {
          let engine = try SimulatorEngine(
            loop: try Simulator.makeLoop(), options: options, security: security, shared: shared)
          start.succeed(engine.ports, mailbox: engine.loop.mailbox)
          engine.run(until: flag)
        } catch {
          start.fail(error)
        }
      }
      switch start.wait() {
      case .success(let (ports, mailbox)):
        running = Running(thread: thread, mailbox: mailbox, flag: flag)
        return ports
      case .failure(let error):
        thread.join()
        throw error
      }
    }
  }

  private static func makeLoop() throws(SimulatorError) -> EventLoop {
    do throws(LoopError) {
      return try EventLoop()
    } catch {
      throw SimulatorError("the event loop: \(error)")
    }
  }

  /// Runs on another loop, whose owner turns it, instead of `start`.
  package func work(on loop: EventLoop) throws(SimulatorError) -> (work: any LoopWork, ports: SimulatorPorts) {
    let engine = try SimulatorEngine(
      loop: loop, options: options, security: try SimulatorSecurity(options), shared: shared)
    return (engine, engine.ports)
  }

  /// Closes every connection and port and ends the thread. The ledger stays. Does nothing if it is not running.
  public func stop() {
    running.withLock { running in
      guard let ended = running.take() else { return }
      ended.flag.raise()
      ended.mailbox.wake()
      ended.thread.join()
    }
  }

  // MARK: - Faults

  /// Sets a fault; `remove` takes the returned number.
  @discardableResult
  package func add(_ rule: FaultRule) -> Int {
    let id = shared.withState { $0.plan.add(rule) }
    wake()
    return id
  }

  /// Sets the fault that this line describes, such as `share=0.1,status=503,reason=ServiceUnavailable`; `remove` takes the returned number.
  /// `apns-simulator --help` lists the words.
  @discardableResult
  public func add(fault text: String) throws(FaultSyntaxError) -> Int {
    add(try FaultRule(text))
  }

  /// Clears one fault; does nothing if it is not set.
  public func remove(fault id: Int) {
    _ = shared.withState { $0.plan.remove(id) }
    wake()
  }

  /// Clears every fault, and ends a shutdown.
  public func removeAllFaults() {
    shared.withState { $0.plan.removeAll() }
    wake()
  }

  /// Performs this action once on every open connection.
  package func act(_ action: SimulatorAction) {
    shared.withState { $0.pendingActions.append(action) }
    wake()
  }

  /// Performs the action in this line once on every open connection: `goaway=all,reason=Shutdown`, `drop`, `streams=1000/1/1000,every=50`,
  /// `shutdown`, `revoke=KEY`.
  public func act(_ text: String) throws(FaultSyntaxError) {
    act(try SimulatorAction(text))
  }

  // MARK: - What the simulated Apple knows

  /// Registers a signing key.
  public func register(_ key: RegisteredKey) {
    shared.withState { $0.service.tokens.register(key) }
  }

  /// Refuses the key's tokens from now on and closes its connections.
  public func revoke(key: String) {
    shared.withState { $0.service.tokens.revoke(key: key) }
    act(.revoke(key: key))
  }

  /// From now on answers 410 Unregistered for this device, with this time (Unix milliseconds); nil: the device is registered again.
  public func setUnregistered(deviceToken: String, since unixMilliseconds: Int64?) {
    shared.withState { $0.service.devices.unregistered[deviceToken.lowercased()] = unixMilliseconds }
  }

  /// Changes devices, channels, keys and limits.
  package func configure(_ change: (inout SimulatedService) -> Void) {
    shared.withState { change(&$0.service) }
  }

  /// Sets the simulated Apple's clock this far ahead of (or behind) ours.
  public func setClock(offsetSeconds: Int64) {
    shared.withState { $0.clockOffsetSeconds = offsetSeconds }
    wake()
  }

  // MARK: - Live Activities

  /// The Live Activities on simulated devices, in the order of their starts, including those that are gone.
  public var activities: [SimulatedActivity] { shared.withState { $0.service.activities.all } }

  /// Sets the id with which the device of a push-to-start token registers; nil: its default id.
  public func setDevice(_ device: String?, startToken: String) {
    _ = shared.withState { $0.service.activities.setDevice(device, of: startToken.lowercased()) }
  }

  /// The user swipes an activity away, on one device or (nil) on all. The devices register its end.
  public func swipe(activity id: String, device: String? = nil) {
    act(.swipe(activity: id, device: device))
  }

  /// Forgets every Live Activity; the devices register nothing.
  public func removeAllActivities() {
    shared.withState { $0.service.activities.removeAll() }
  }

  /// Checks the activities every few milliseconds until the condition holds; false: it did not in time.
  public func wait(
    timeoutMilliseconds: Int, untilActivities condition: ([SimulatedActivity]) -> Bool
  ) -> Bool {
    waitUntil(timeoutMilliseconds) { condition(activities) }
  }

  // MARK: - The ledger

  /// A copy of the ledger.
  public var ledger: Ledger { shared.withState { $0.ledger } }

  /// Reads the ledger without a copy. The simulator waits meanwhile.
  public func readLedger<Result: Sendable>(_ body: (borrowing Ledger) -> Result) -> Result {
    shared.withState { body($0.ledger) }
  }

  /// Clears requests and counts; connections stay.
  public func clearLedger() {
    shared.withState { $0.clearLedger() }
  }

  /// Checks the ledger every few milliseconds until the condition holds; false: it did not in time.
  public func wait(timeoutMilliseconds: Int, until condition: (borrowing Ledger) -> Bool) -> Bool {
    waitUntil(timeoutMilliseconds) { shared.withState { condition($0.ledger) } }
  }

  private func waitUntil(_ timeoutMilliseconds: Int, _ holds: () -> Bool) -> Bool {
    let pause = DispatchSemaphore(value: 0)
    let deadline = DispatchTime.now() + .milliseconds(timeoutMilliseconds)
    while true {
      if holds() { return true }
      if DispatchTime.now() >= deadline { return false }
      _ = pause.wait(timeout: .now() + .milliseconds(5))
    }
  }

  private func wake() {
    running.withLock { $0?.mailbox.wake() }
  }
}
