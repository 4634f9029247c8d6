import APNsSimulator
import PushChannels
import PushCore
import PushCredentials
import PushIO
import Synchronization
import TestSupport
import Testing

/// The channel client while APNs, the network or the clock misbehave: what it repeats, what it never repeats, and its errors.
@Suite(.timeLimit(.minutes(2)))
struct ChannelClientFaultTests {
  private static func impatient(_ configuration: inout ChannelClientConfiguration) {
    configuration.requestTimeoutMilliseconds = 300
    configuration.reconnectMilliseconds = 20
  }

  // MARK: - Lost after it was written

  @Test(arguments: ["drop", "drop,processed", "reset=2", "reset=2,processed", "silence", "silence,processed"])
  func aLostCreateIsNotRepeated(_ fault: String) async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    try world.simulator.add(fault: "times=1,\(fault)")
    let failure = try #require(await world.failure(of: .create(.none)))
    guard case .unanswered = failure.kind else { throw TestFailure("\(failure)") }
    #expect(failure.isAmbiguous)
    #expect(failure.description.contains("look for it with herald channels list before you create another"))
    #expect(world.simulator.ledger.requests == 1)
    #expect(world.existing() == (fault.hasSuffix("processed") ? 1 : 0))
    #expect(try await world.list().count == world.existing(), "and the client goes on")
  }

  @Test(arguments: [
    "drop", "reset=2", "silence", "status=503,reason=ServiceUnavailable", "status=500,reason=InternalServerError",
  ])
  func othersAreRepeatedOnce(_ fault: String) async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    let id = try await world.create(.mostRecent)
    for operation in [ChannelRequest.Operation.list, .read(id), .delete(id)] {
      try world.simulator.add(fault: "times=1,\(fault)")
      _ = try await world.perform(operation)
      world.simulator.removeAllFaults()
    }
    #expect(world.simulator.ledger.requests == 7 && world.existing() == 0)
    try world.simulator.add(fault: fault)
    let failure = try #require(await world.failure(of: .list))
    #expect(failure.isTemporary)
    #expect(world.simulator.ledger.requests == 9)
  }

  /// The first request deleted the channel; the repeated one gets the answer that there is none.
  @Test func aDeleteThatWasDoneAndLost() async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    let id = try await world.create()
    try world.simulator.add(fault: "times=1,drop,processed")
    #expect(try await world.perform(.delete(id)).content == .deleted)
    #expect(world.simulator.ledger.answers["404 ChannelNotRegistered"] == 1 && world.existing() == 0)
  }

  // MARK: - Surely not processed

  @Test(arguments: [
    "times=2,reset=7", "times=1,goaway=previous", "times=1,status=503,reason=Shutdown",
    "times=1,status=400,reason=IdleTimeout", "times=1,status=403,reason=ExpiredProviderToken",
    "times=1,status=403,reason=UnrelatedKeyIdInToken",
  ])
  func whatWasNotProcessedIsSentAgain(_ fault: String) async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    let id = try await world.create()
    try world.simulator.add(fault: fault)
    #expect(try await world.perform(.read(id)).content == .read(.none))
    world.simulator.removeAllFaults()
    try world.simulator.add(fault: fault)
    _ = try await world.create()
    #expect(world.existing() == 2)
  }

  @Test(arguments: ["status=503,reason=ServiceUnavailable", "status=500,reason=InternalServerError"])
  func whatIsRefusedChangesNothing(_ fault: String) async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    let id = try await world.create()
    try world.simulator.add(fault: fault)
    for operation in [ChannelRequest.Operation.create(.none), .delete(id)] {
      #expect(try #require(await world.failure(of: operation)).isTemporary)
    }
    #expect(world.existing() == 1)
  }

  @Test func answersBeforeAGoAwayCount() async throws {
    let world = try ChannelWorld()
    try world.simulator.add(fault: "goaway=this,reason=Shutdown")
    for _ in 0..<3 { _ = try await world.create() }
    #expect(world.existing() == 3 && world.simulator.ledger.connectionsOpened == 3)
  }

  @Test func refusedStreamsComeToAnEnd() async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    try world.simulator.add(fault: "reset=7")
    let failure = try #require(await world.failure(of: .create(.none)))
    #expect(!failure.isAmbiguous && failure.isTemporary, "\(failure)")
    #expect(world.simulator.ledger.requests == 4 && world.existing() == 0)
  }

  // MARK: - Provider tokens

  /// Returns an old token first, and lets the process make the next one.
  private final class AgedStore: ProviderTokenStore {
    let old: [UInt8]
    let now: Now
    let asks = Mutex<[Int64]>([])

    init(old: [UInt8], now: Now) {
      self.old = old
      self.now = now
    }

    func ask(_ name: ProviderTokenName, newerThan: Int64, refused: Int64, from asker: ProviderTokens.Asker) {
      let isFirst = asks.withLock { asks in
        asks.append(newerThan)
        return asks.count == 1
      }
      asker.tokens.storeAnswered(asker.handle, isFirst ? .token(old) : .mayMint, now: now, random: 1)
    }

    func offer(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, from asker: ProviderTokens.Asker) {
      asker.tokens.storeAnswered(asker.handle, .token(token), now: now, random: 1)
    }

    func decline(_ name: ProviderTokenName) {}

    func serves(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, at asker: ProviderTokens.Asker) {}
  }

  @Test func anExpiredTokenIsRenewed() async throws {
    let key = try SimulatorCredential(team: "TEAM000001", key: "KEY0000001")
    let now = try EventLoop().now
    // Too young to renew by our clock, expired by the clock of APNs, which is ahead.
    let old = try key.token(issuedAt: now.unixSeconds - 2000)
    let store = AgedStore(old: Array(old.utf8), now: now)
    let world = try ChannelWorld(key: key, tokens: ProviderTokens(store: store))
    world.simulator.setClock(offsetSeconds: 1700)
    _ = try await world.create()
    _ = try await world.create()
    let ledger = world.simulator.ledger
    #expect(ledger.answers == ["403 ExpiredProviderToken": 1, "201": 2])
    #expect(ledger.connectionsOpened == 2 && store.asks.withLock { $0.count } == 2)
  }

  /// A token that is fresh by our clock, and expired or of the future by APNs', is replaced by one of APNs' clock; not again and again.
  @Test(arguments: [(4_000, "ExpiredProviderToken"), (-1_200, "InvalidProviderToken")])
  func aTokenByAWrongClockIsReplacedOnce(offset: Int64, reason: String) async throws {
    let world = try ChannelWorld()
    world.simulator.setClock(offsetSeconds: offset)
    _ = try await world.create()
    #expect(world.simulator.ledger.answers == ["403 \(reason)": 1, "201": 1])
    // Its clock goes back: the new token is of the future.
    world.simulator.setClock(offsetSeconds: -8_000)
    let failure = try #require(await world.failure(of: .create(.none)))
    #expect(failure.kind == .refused(status: 403, reason: .invalidProviderToken))
  }

  // MARK: - Hosts and times

  @Test func aHostThatIsAway() async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    try world.simulator.add(fault: "refuse")
    #expect(try await ChannelWorld.until { !LoopbackPort.isOpen(world.ports.managePort ?? 0) })
    let failure = try #require(await world.failure(of: .create(.none)))
    guard case .unreachable(let text) = failure.kind else { throw TestFailure("\(failure)") }
    #expect(text.contains("Connection refused") && failure.isTemporary && !failure.isAmbiguous)
    #expect(failure.description.contains("check apns.manage_production"))
    world.simulator.removeAllFaults()
    #expect(try await ChannelWorld.until { LoopbackPort.isOpen(world.ports.managePort ?? 0) })
    _ = try await world.create()
  }

  @Test func aHostThatSpeaksNoTLS() async throws {
    let world = try ChannelWorld(client: ChannelClientFaultTests.impatient)
    try world.simulator.add(fault: "handshake=fail")
    let failure = try #require(await world.failure(of: .create(.none)))
    guard case .unreachable = failure.kind else { throw TestFailure("\(failure)") }
    #expect(failure.isTemporary && world.existing() == 0)
  }

  @Test func idleConnectionsClose() async throws {
    let world = try ChannelWorld(client: { $0.idleMilliseconds = 30 })
    _ = try await world.create()
    #expect(try await world.until { $0.connections.first?.closedAt != nil })
    _ = try await world.create()
    #expect(world.simulator.ledger.connectionsOpened == 2)
  }

  @Test func aStreamThatNeverComes() async throws {
    let world = try ChannelWorld(client: { configuration in
      configuration.waitMilliseconds = 200
      configuration.requestTimeoutMilliseconds = 1_500
    })
    try world.simulator.add(fault: "times=1,silence")
    // The only stream of a new connection is in use, and never answered.
    async let first = world.failure(of: .list)
    #expect(try await world.until { $0.requests >= 1 })
    let failure = try #require(await world.failure(of: .list))
    #expect(failure.kind == .unreachable(text: "no connection was free within 200 ms"))
    #expect(await first == nil, "it is repeated once its time is over")
  }

  @Test func closingAnswersEverything() async throws {
    let world = try ChannelWorld()
    try world.simulator.add(fault: "latency=100")
    async let slow = world.create()
    #expect(try await world.until { $0.requests >= 1 })
    world.thread.close()
    _ = try await slow
    #expect(await world.failure(of: .list)?.kind == .closed)
  }
}
