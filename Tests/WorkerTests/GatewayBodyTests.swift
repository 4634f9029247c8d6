import Glibc
import NIOCore
import PushCore
import Synchronization
import Testing

@testable import PushFront

/// What the gateway keeps of a request's body, and where it reads a large one.
@Suite struct GatewayBodyTests {
  private let key = APIKey(
    id: "abcdefgh", hash: [], app: "com.example.app", environment: nil, scopes: [.send], rate: nil, createdAt: 1)
  private let budget = SharedBudget(maximum: 1_000, unkeyedMaximum: 100)

  private func part(_ count: Int) -> ByteBuffer { ByteBuffer(repeating: UInt8(ascii: "a"), count: count) }

  private var isUntouched: Bool {
    guard budget.take(100, for: nil) else { return false }
    defer { budget.give(100, from: nil) }
    return !budget.take(1, for: nil)
  }

  /// The head had no key, and the body is not where it may be.
  @Test func withoutAKey_nothingIsKept() {
    var body = GatewayBodyParts(budget: budget, key: nil, find: nil)
    for _ in 0..<20 {
      body.append(part(100))
      #expect(isUntouched)
    }
    body.end()
    body.drop()
    #expect(isUntouched)
  }

  /// The key is looked up, or stands in the body: so much is kept as came with the head, and counts for nobody.
  @Test(arguments: [false, true]) func untilTheKeyIsKnown_bytesCountForNobody(isInBody: Bool) throws {
    var body = GatewayBodyParts(
      budget: budget, key: nil, isKeyAwaited: !isInBody, find: isInBody ? { $0.count > 60 ? key : nil } : nil)
    body.append(part(60))
    #expect(!budget.take(41, for: nil) && body.isFull != isInBody)
    // It is looked for again in twice as many bytes.
    if isInBody { body.append(part(60)) } else { body.adopt(key) }
    #expect(isUntouched && body.key == key && !body.isFull)
    body.end()
    let whole = try #require(try body.now())
    #expect(whole.bytes.count == (isInBody ? 120 : 60))
    #expect(!budget.take(750, for: key.id), "they count for the key")
  }

  /// A key behind this is not looked for.
  @Test func withoutAKey_noMoreIsReadThanMayHoldIt() {
    let (budget, most) = (
      SharedBudget(maximum: 1 << 20, unkeyedMaximum: 1 << 20), GatewayLimits.unkeyedBodyBytesMaximum
    )
    var body = GatewayBodyParts(budget: budget, key: nil, find: { _ in nil })
    body.append(part(most - 1))
    #expect(!body.isFull)
    body.append(part(1))
    #expect(body.isFull)
  }

  /// An event loop waits for what is done on its thread; the caller's stands for it here.
  @Test func whatIsLarge_isReadOnAnotherThread() async throws {
    let (work, least) = (LargeWork(), GatewayLimits.smallWorkBytesMaximum)
    for (count, isOwn) in [(0, true), (least, true), (least + 1, false), (GatewayLimits.bodyBytesMaximum, false)] {
      let caller = pthread_self()
      let reader = try await work.run(count, for: "a") { () throws(Problem) in pthread_self() }
      #expect((reader == caller) == isOwn, "\(count) bytes")
    }
  }

  /// Work that waits until it is let go.
  private final class Held: Sendable {
    private let state = Mutex((isOpen: false, done: [String]()))

    var done: [String] { state.withLock { $0.done.sorted() } }
    func open() { state.withLock { $0.isOpen = true } }

    func work(_ name: String) {
      for _ in 0..<10_000 where !state.withLock({ $0.isOpen }) { usleep(1_000) }
      state.withLock { $0.done.append($0.isOpen ? name : "\(name) in vain") }
    }
  }

  /// A large body is read beside the event loop: whatever it costs, others are answered, `/livez` among them.
  @Test(.timeLimit(.minutes(1))) func whatIsLarge_holdsUpNothingSmall() async throws {
    let (work, held) = (LargeWork(), Held())
    func large(_ key: String) async throws {
      try await work.run(GatewayLimits.smallWorkBytesMaximum + 1, for: key) { () throws(Problem) in held.work(key) }
    }
    async let first: Void = large("a")
    async let second: Void = large("b")
    for number in 0..<100 {
      let count = GatewayLimits.smallWorkBytesMaximum
      #expect(try await work.run(count, for: "a") { () throws(Problem) in number } == number)
    }
    #expect(held.done.isEmpty)
    held.open()
    _ = try await (first, second)
    #expect(held.done == ["a", "b"])
  }
}
