import NIOCore
import PushCore

/// A request's body in memory. Its bytes count against its key's share of the budget until it is released.
final class GatewayBody: Sendable {
  let bytes: [UInt8]
  private let owner: String?
  private let budget: SharedBudget

  fileprivate init(_ bytes: [UInt8], of owner: String?, takenFrom budget: SharedBudget) {
    self.bytes = bytes
    self.owner = owner
    self.budget = budget
  }

  deinit { budget.give(bytes.count, from: owner) }
}

/// Collects a request's body. Until its key is known, only as much as may hold the key.
struct GatewayBodyParts {
  private enum Phase {
    /// More comes. → whole, gone
    case receiving
    /// → gone
    case whole
    /// The request was answered, or its connection has ended.
    case gone
  }

  private let budget: SharedBudget
  private var phase = Phase.receiving
  private var endWaiter: CheckedContinuation<GatewayBody, any Error>?
  private var beginningWaiter: CheckedContinuation<GatewayExchange.Beginning, any Error>?
  /// Finds a valid key in the beginning of a body; nil: the key is not in the body.
  private let find: (([UInt8]) -> APIKey?)?
  /// The head has a key that is looked up: it may be newer than what was read last.
  private let isKeyAwaited: Bool
  /// Its key; nil: not known yet.
  private(set) var key: APIKey?
  private var bytes: [UInt8] = []
  /// Why the body is refused. Then nothing of it is kept.
  private var refusal: Problem?
  /// The key is looked for again when so many bytes are there: each time twice as many, so that the time grows as the bytes do.
  private var nextFindCount = 1

  /// - Parameter key: from the head of the request; nil: it has no valid one.
  init(budget: SharedBudget, key: APIKey?, isKeyAwaited: Bool = false, find: (([UInt8]) -> APIKey?)?) {
    self.budget = budget
    self.key = key
    self.isKeyAwaited = isKeyAwaited
    self.find = find
  }

  /// No more is read before the key is known.
  var isFull: Bool { key == nil && (isKeyAwaited || bytes.count >= GatewayLimits.unkeyedBodyBytesMaximum) }
  /// The request's task waits for more.
  var isAwaited: Bool { endWaiter != nil || beginningWaiter != nil }

  /// Of a request that cannot have a key any more, nothing is kept: it is refused, or needs no body.
  private var mayHaveKey: Bool { key != nil || isKeyAwaited || find != nil }

  mutating func append(_ part: ByteBuffer) {
    defer { answer() }
    guard refusal == nil, mayHaveKey else { return }
    let count = part.readableBytes
    guard bytes.count + count <= GatewayLimits.bodyBytesMaximum else { return refuse(GatewayBodyParts.tooLarge) }
    if key == nil, let find, bytes.count + count >= nextFindCount {
      nextFindCount = 2 * (bytes.count + count)
      if let found = find(bytes + part.readableBytesView) { adopt(found) }
      guard refusal == nil else { return }
    }
    guard budget.take(count, for: key?.id) else {
      return refuse(GatewayBodyParts.tooMany(isKeyed: key != nil || isKeyAwaited))
    }
    bytes.append(contentsOf: part.readableBytesView)
  }

  /// No more comes.
  mutating func end() {
    phase = .whole
    answer()
  }

  /// The request's key is known: from now on its bytes count for that.
  mutating func adopt(_ found: APIKey) {
    guard key == nil, refusal == nil else { return }
    defer { answer() }
    let isTaken = budget.take(bytes.count, for: found.id)
    if !isTaken { refuse(GatewayBodyParts.tooMany(isKeyed: true)) }
    budget.give(bytes.count, from: nil)
    key = found
  }

  private static func tooMany(isKeyed: Bool) -> Problem {
    Problem(
      .unavailable,
      isKeyed
        ? "the server receives too many bodies at once, or too many of this key; try again"
        : "the server receives too many bodies without a key at once; send the key in the header Authorization")
  }

  private mutating func refuse(_ problem: Problem) {
    budget.give(bytes.count, from: key?.id)
    bytes = []
    refusal = problem
  }

  /// Returns the bytes to the budget: nobody needs them any more.
  mutating func drop() {
    budget.give(bytes.count, from: key?.id)
    bytes = []
    phase = .gone
    answer()
  }

  // MARK: - Its task

  /// The whole body; nil: more comes. Throws why it is refused. It may be taken once.
  mutating func now() throws -> GatewayBody? {
    if let refusal { throw refusal }
    switch phase {
    case .receiving: return nil
    case .whole:
      let body = GatewayBody(bytes, of: key?.id, takenFrom: budget)
      bytes = []
      return body
    case .gone: throw ConnectionEnded()
    }
  }

  private func beginning() throws -> GatewayExchange.Beginning? {
    if let refusal { throw refusal }
    switch phase {
    case .gone: throw ConnectionEnded()
    case .receiving, .whole: break
    }
    if let key { return .keyed(key) }
    if case .whole = phase { return .unkeyed(bytes, isWhole: true) }
    return isFull ? .unkeyed(bytes, isWhole: false) : nil
  }

  mutating func waitForEnd(_ continuation: CheckedContinuation<GatewayBody, any Error>) {
    endWaiter = continuation
    answer()
  }

  mutating func waitForBeginning(_ continuation: CheckedContinuation<GatewayExchange.Beginning, any Error>) {
    beginningWaiter = continuation
    answer()
  }

  private mutating func answer() {
    if let waiter = endWaiter, let result = GatewayBodyParts.settled({ try now() }) {
      endWaiter = nil
      waiter.resume(with: result)
    }
    if let waiter = beginningWaiter, let result = GatewayBodyParts.settled({ try beginning() }) {
      beginningWaiter = nil
      waiter.resume(with: result)
    }
  }

  private static func settled<Value>(_ now: () throws -> Value?) -> Result<Value, any Error>? {
    do {
      return try now().map { .success($0) }
    } catch {
      return .failure(error)
    }
  }

  /// Throws if the head already says that the body cannot be taken.
  static func check(_ request: GatewayRequest) throws(Problem) {
    if let encoding = request["content-encoding"], encoding.lowercased() != "identity" {
      throw Problem(.unsupportedMedia, "a body must not be compressed")
    }
    if let count = request["content-length"].flatMap({ Int($0) }), count > GatewayLimits.bodyBytesMaximum {
      throw tooLarge
    }
  }

  private static let tooLarge = Problem(.tooLarge, "a body has at most \(GatewayLimits.bodyBytesMaximum) bytes")
}
