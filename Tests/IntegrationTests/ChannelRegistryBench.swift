import Logging
import PushCore
import PushIO
import PushStores
import TestSupport

/// A scripted APNs channel management: it keeps channels, and loses answers on demand.
final class ScriptedChannelManager: ChannelManaging {
  private let loop: EventLoop
  private(set) var channels: [ChannelID: StoragePolicy] = [:]
  private(set) var createCount = 0
  private(set) var listCount = 0
  /// The number of creates that it carries out and never answers.
  var createsToLose = 0
  /// Runs once, after it carried out the next create and before it answers.
  var afterCreate: (() -> Void)?
  var answerMilliseconds: Int64 = 1
  /// Which requests it carries out at once, and answers only after `answerHeld`.
  var isHeld: (ChannelRequest.Operation) -> Bool = { _ in false }
  private var held: [() -> Void] = []

  var heldCount: Int { held.count }

  init(loop: EventLoop) {
    self.loop = loop
  }

  /// A channel of another sender.
  @discardableResult
  func add(_ storage: StoragePolicy) -> ChannelID {
    let text = "Y2hhbm5lbC0" + String(channels.count + createCount * 1_000, radix: 10)
    guard let id = ChannelID(text: text) else { preconditionFailure("digits are base64") }
    channels[id] = storage
    return id
  }

  func remove(_ id: ChannelID) { channels[id] = nil }

  func perform(_ request: ChannelRequest, then: @escaping (Result<ChannelAnswer, ChannelFailure>) -> Void) {
    let result = result(request)
    guard !isHeld(request.operation) else { return held.append { then(result) } }
    loop.schedule(afterMilliseconds: answerMilliseconds) { then(result) }
  }

  /// Answers the oldest held request.
  func answerHeld() { held.removeFirst()() }

  private func result(_ request: ChannelRequest) -> Result<ChannelAnswer, ChannelFailure> {
    let requestID = UUIDValue(high: 1, low: UInt64(createCount))
    func refused(_ status: UInt16, _ reason: APNsReason) -> Result<ChannelAnswer, ChannelFailure> {
      .failure(ChannelFailure(.refused(status: status, reason: reason), request: request, host: "script"))
    }
    switch request.operation {
    case .create(let storage):
      createCount += 1
      let id = add(storage)
      afterCreate?()
      afterCreate = nil
      if createsToLose > 0 {
        createsToLose -= 1
        return .failure(ChannelFailure(.unanswered(text: "the connection was lost"), request: request, host: "script"))
      }
      return .success(ChannelAnswer(.created(id), requestID: requestID))
    case .read(let id):
      guard let storage = channels[id] else { return refused(404, .channelNotRegistered) }
      return .success(ChannelAnswer(.read(storage), requestID: requestID))
    case .delete(let id):
      guard channels.removeValue(forKey: id) != nil else { return refused(404, .channelNotRegistered) }
      return .success(ChannelAnswer(.deleted, requestID: requestID))
    case .list:
      listCount += 1
      return .success(ChannelAnswer(.listed(channels.keys.sorted { $0.text < $1.text }), requestID: requestID))
    }
  }
}

/// Registries over a real Redis and a scripted APNs, on one loop, driven turn by turn.
final class ChannelRegistryBench {
  let loop: EventLoop
  let manager: ScriptedChannelManager
  let scope: AppScope
  let prefix: String
  private(set) var registries: [ChannelRegistry] = []
  private var callers: [RedisClient] = []
  private(set) var notices: [String] = []
  private let url: String
  private let limit: ChannelLimit

  init(url: String, registries count: Int = 1, limit: Int = 100) throws {
    self.url = url
    self.limit = ChannelLimit(maximum: limit)
    loop = try EventLoop()
    manager = ScriptedChannelManager(loop: loop)
    prefix = "channels-\(UInt32.random(in: 0 ... .max)):"
    guard let scope = AppScope(app: "com.example.app", environment: .sandbox) else {
      throw TestFailure("no scope")
    }
    self.scope = scope
    for _ in 0..<count { try addRegistry() }
  }

  /// Another registry, as in another process.
  @discardableResult
  func addRegistry() throws -> ChannelRegistry {
    var timing = ChannelEnsureState.Timing(requestMilliseconds: 100, patienceMilliseconds: 15_000)
    timing.settleMilliseconds = 200
    timing.lockMilliseconds = 600
    let caller = RedisClient(
      loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, seed: UInt64(registries.count))
    let registry = ChannelRegistry(
      loop: loop, redis: caller, manager: manager, prefix: prefix, timing: timing, limit: limit,
      seed: UInt64(registries.count)
    ) { [unowned self] _, text in notices.append(text) }
    callers.append(caller)
    registries.append(registry)
    return registry
  }

  /// Closes its connection and never turns it again, as if its process was killed.
  func kill(_ index: Int) { callers[index].close() }

  func name(_ text: String) throws -> ChannelName {
    guard let name = ChannelName(text) else { throw TestFailure("no name: \(text)") }
    return name
  }

  func turn() {
    loop.poll(maximumWaitMilliseconds: 5)
    for caller in callers { caller.turn() }
    loop.flush()
  }

  /// Turns until the condition holds; false after `milliseconds`.
  func turn(milliseconds: Int64 = 15_000, until isDone: () -> Bool) -> Bool {
    turn()
    let start = loop.now.monotonic
    while !isDone() {
      turn()
      if loop.now.monotonic.milliseconds(since: start) > milliseconds { return false }
    }
    return true
  }

  /// Waits for one answer.
  func wait<Value>(_ ask: (@escaping ChannelRegistry.Then<Value>) -> Void) throws -> Value {
    var answer: Result<Value, ChannelRegistryFailure>?
    ask { answer = $0 }
    guard turn(until: { answer != nil }), let answer else { throw TestFailure("no answer") }
    return try answer.get()
  }

  func ensure(
    _ text: String, _ storage: StoragePolicy = .none, registry index: Int = 0
  ) throws -> ChannelEnsureState.Result {
    let name = try name(text)
    let result = try wait { registries[index].settle(name, in: scope, .ensure(storage), then: $0) }
    guard let result else { throw TestFailure("no channel") }
    return result
  }

  func snapshot() throws -> ChannelRegistry.Snapshot {
    try wait { registries[registries.count - 1].snapshot(scope, then: $0) }
  }
}
