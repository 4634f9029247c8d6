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
    // A reference cycle with the loop.
    loop.cancel(try #require(last))
  }

  /// Answers at once, except for names that a test holds back.
  private final class HeldNames: Sendable {
    private let answers: Mutex<[String: Result<[SocketAddress], ResolverError>]>
    private let held: Mutex<[String: DispatchSemaphore]> = Mutex([:])
    private let begun = Mutex<[String]>([])

    init(_ answers: [String: String] = [:]) {
      self.answers = Mutex(answers.mapValues { .success([address($0)].compactMap { $0 }) })
    }

    /// The look-ups that began, in order.
    var asked: [String] { begun.withLock { $0 } }

    func hold(_ host: String) { held.withLock { $0[host] = DispatchSemaphore(value: 0) } }
    func release(_ host: String) {
      let semaphore = held.withLock { $0.removeValue(forKey: host) }
      for _ in 0..<16 { semaphore?.signal() }
    }
    func say(_ host: String, _ result: Result<[SocketAddress], ResolverError>) {
      answers.withLock { $0[host] = result }
    }

    func lookup(_ host: String) -> Result<[SocketAddress], ResolverError> {
      begun.withLock { $0.append(host) }
      let semaphore = held.withLock { $0[host] }
      semaphore?.wait()
      return answers.withLock { $0[host] } ?? .failure(ResolverError(host: host, text: "none"))
    }
  }

  @Test func aSlowNameStarvesNoOther() throws {
    let names = HeldNames(["slow.test": "127.0.0.1", "quick.test": "127.0.0.2"])
    names.hold("slow.test")
    let loop = try EventLoop(mailboxCapacity: 16) { host, _ in names.lookup(host) }
    var found: [String] = []
    _ = loop.resolver.resolve(host: "slow.test", port: 1) { _ in found.append("slow") }
    _ = loop.resolver.resolve(host: "quick.test", port: 1) { _ in found.append("quick") }
    #expect(loop.turn { found == ["quick"] })
    names.release("slow.test")
    #expect(loop.turn { found == ["quick", "slow"] })
  }

  /// Repeated look-ups of a name that hangs use one thread, and leave the others to other names.
  @Test func aNameIsLookedUpOnceAtATime() throws {
    let names = HeldNames(["slow.test": "127.0.0.1", "quick.test": "127.0.0.2"])
    names.hold("slow.test")
    let loop = try EventLoop(mailboxCapacity: 16) { host, _ in names.lookup(host) }
    var found: [String] = []
    for number in 0..<20 {
      _ = loop.resolver.resolve(host: "slow.test", port: 1) { _ in found.append("slow\(number)") }
    }
    _ = loop.resolver.resolve(host: "quick.test", port: 1) { _ in found.append("quick") }
    #expect(loop.turn { found == ["quick"] })
    #expect(names.asked.count == 2)
    names.release("slow.test")
    #expect(loop.turn { found.count == 21 })
    #expect(found == ["quick"] + (0..<20).map { "slow\($0)" })
    #expect(loop.scheduledCount == 0)
  }

  @Test func aLateLookUpGivesWayToTheLastAddresses() throws {
    let names = HeldNames(["late.test": "127.0.0.1"])
    var limits = ResolverLimits()
    limits.patienceMilliseconds = 20
    let loop = try EventLoop(mailboxCapacity: 16, names: limits) { host, _ in names.lookup(host) }
    var found: [String] = []
    func ask() {
      _ = loop.resolver.resolve(host: "late.test", port: 1) { result in
        found.append(((try? result.get()) ?? []).map(\.description).joined())
      }
    }
    ask()
    #expect(loop.turn { found.count == 1 })
    names.hold("late.test")
    names.say("late.test", .success([Self.address("127.0.0.9")].compactMap { $0 }))
    ask()
    // It is still held.
    #expect(loop.turn { found.count == 2 })
    // Its late result is cached from then on.
    names.release("late.test")
    #expect(loop.turn { loop.resolver.lookupCount == 0 })
    names.say("late.test", .failure(ResolverError(host: "late.test", text: "none")))
    ask()
    #expect(loop.turn { found.count == 3 })
    #expect(found == ["127.0.0.1:443", "127.0.0.1:443", "127.0.0.9:443"])
  }

  @Test func aQuestionHasADeadline() throws {
    let names = HeldNames()
    names.hold("silent.test")
    defer { names.release("silent.test") }
    var limits = ResolverLimits()
    limits.patienceMilliseconds = 5
    limits.deadlineMilliseconds = 20
    let loop = try EventLoop(mailboxCapacity: 16, names: limits) { host, _ in names.lookup(host) }
    var reported = ""
    _ = loop.resolver.resolve(host: "silent.test", port: 1) { result in
      if case .failure(let error) = result { reported = error.description }
    }
    #expect(loop.turn { !reported.isEmpty })
    #expect(reported == "looking up silent.test failed: no name server answered within 20 ms")
    #expect(loop.scheduledCount == 0)
  }

  @Test func addressesGrowTooOld() throws {
    let names = HeldNames(["old.test": "127.0.0.1"])
    var limits = ResolverLimits()
    limits.ageMaximumMilliseconds = 0
    let loop = try EventLoop(mailboxCapacity: 16, names: limits) { host, _ in names.lookup(host) }
    var reported: [String] = []
    func ask() {
      _ = loop.resolver.resolve(host: "old.test", port: 1) { result in
        if case .failure(let error) = result { reported.append(error.text) } else { reported.append("found") }
      }
    }
    ask()
    #expect(loop.turn { reported.count == 1 })
    names.say("old.test", .failure(ResolverError(host: "old.test", text: "none")))
    ask()
    #expect(loop.turn { reported.count == 2 })
    #expect(reported == ["found", "none"])
  }

  @Test func aNameThatFailsKeepsItsLastAddresses() throws {
    let names = HeldNames(["moved.test": "127.0.0.1"])
    let loop = try EventLoop(mailboxCapacity: 16) { host, _ in names.lookup(host) }
    var found: [String] = []
    func ask() {
      _ = loop.resolver.resolve(host: "moved.test", port: 7) { result in
        switch result {
        case .success(let addresses): found.append(addresses.map(\.description).joined(separator: ","))
        case .failure(let error): found.append(error.description)
        }
      }
    }
    ask()
    #expect(loop.turn { found.count == 1 })
    names.say("moved.test", .failure(ResolverError(host: "moved.test", text: "no server answers")))
    ask()
    #expect(loop.turn { found.count == 2 })
    names.say("moved.test", .success([Self.address("127.0.0.3")].compactMap { $0 }))
    ask()
    #expect(loop.turn { found.count == 3 })
    #expect(found == ["127.0.0.1:443", "127.0.0.1:443", "127.0.0.3:443"])
  }

  @Test func aCancelledQuestionIsNotAnswered() throws {
    let asked = Mutex<[String]>([])
    var limits = ResolverLimits()
    limits.lookupsMaximum = 1
    let loop = try EventLoop(mailboxCapacity: 16, names: limits) { host, _ in
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
