import Foundation
import PushCore
import PushIO
import Synchronization
import Testing

@Suite("Resolver", .timeLimit(.minutes(5)))
struct ResolverTests {
  private static func address(_ text: String) -> SocketAddress? { SocketAddress(numericHost: text, port: 443) }

  @Test func aSlowLookUpDoesNotHoldTheLoop() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { _, _ in
      usleep(300_000)
      return .success([Self.address("127.0.0.1")].compactMap { $0 })
    }
    var ticks = 0
    var found: [SocketAddress] = []
    var last: TimerToken?
    func tick() {
      ticks += 1
      last = loop.schedule(afterMilliseconds: 5) { tick() }
    }
    tick()
    _ = loop.resolver.resolve(host: "slow.test", port: 443) { result in found = (try? result.get()) ?? [] }
    #expect(loop.turn { !found.isEmpty })
    #expect(ticks > 10)
    #expect(found.map(\.description) == ["127.0.0.1:443"])
    // It holds the loop that holds it.
    loop.cancel(try #require(last))
  }

  @Test func aCancelledQuestionIsNotAnswered() throws {
    let asked = Mutex<[String]>([])
    let loop = try EventLoop(mailboxCapacity: 16) { host, _ in
      asked.withLock { $0.append(host) }
      usleep(50_000)
      return .failure(ResolverError(host: host, text: "none"))
    }
    var answers: [String] = []
    let first = loop.resolver.resolve(host: "first.test", port: 1) { _ in answers.append("first") }
    loop.turn(forMilliseconds: 10)
    let second = loop.resolver.resolve(host: "second.test", port: 1) { _ in answers.append("second") }
    _ = loop.resolver.resolve(host: "third.test", port: 1) { _ in answers.append("third") }
    loop.resolver.cancel(try #require(first))
    loop.resolver.cancel(try #require(second))
    #expect(loop.turn { !answers.isEmpty })
    #expect(answers == ["third"])
    #expect(asked.withLock { $0 }.contains("second.test") == false)
  }

  @Test func questionsAreBounded() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { host, _ in
      usleep(100_000)
      return .failure(ResolverError(host: host, text: "none"))
    }
    let taken = (0..<Resolver.requestsMaximum + 10).count { index in
      loop.resolver.resolve(host: "host\(index).test", port: 1) { _ in } != nil
    }
    #expect(taken == Resolver.requestsMaximum)
  }

  @Test func theThreadEndsWithItsLoop() throws {
    final class Held: Sendable {}
    weak var weakly: Held?
    try {
      let held = Held()
      weakly = held
      let loop = try EventLoop(mailboxCapacity: 16) { host, _ in
        _ = held
        return .failure(ResolverError(host: host, text: "none"))
      }
      var isAnswered = false
      _ = loop.resolver.resolve(host: "a.test", port: 1) { _ in isAnswered = true }
      #expect(loop.turn { isAnswered })
    }()
    for _ in 0..<500 where weakly != nil { usleep(10_000) }
    #expect(weakly == nil)
  }

  @Test func theSystemFindsLocalhostAndMissesNonsense() throws {
    let found = try Resolver.systemLookup("localhost", 8080).get()
    #expect(found.allSatisfy { $0.port == 8080 })
    #expect(!found.isEmpty)
    #expect(throws: ResolverError.self) { try Resolver.systemLookup("no such host", 1).get() }
  }
}
