import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// Workers that share a Redis and differ: in their configuration, or in what they saw.
@Suite(.timeLimit(.minutes(2)))
struct RedisFleetTests {
  private let accepted = RememberedOutcome(
    outcome: .accepted, status: 200, attempts: 1, sentAt: 1_796_000_000_004, completedAt: 1_796_000_000_031)

  private func join(
    _ server: RedisServer, prefix: String = "herald:", claimSeconds: Int64 = 60
  ) throws -> AdmissionDriver<RedisAdmissionStore> {
    let loop = try EventLoop()
    var settings = RedisAdmissionStoreSettings()
    settings.prefix = prefix
    settings.claimSeconds = claimSeconds
    settings.timeoutMilliseconds = 2000
    let state = RedisAdmissionStore(
      loop: loop, configuration: try RedisConfiguration(url: server.url), tls: nil, settings: settings, seed: 7)
    state.connect()
    let driver = AdmissionDriver(state, loop: loop)
    try driver.turn(untilWithinSeconds: 10, "connected") { state.isConnected }
    try driver.turn()
    return driver
  }

  private func job(_ sequence: Int64) -> PushJob {
    makeJob(token: "fleet", collapseID: "match-7", sequence: sequence)
  }

  private func accept(
    _ job: borrowing PushJob, id: UInt64, _ driver: AdmissionDriver<RedisAdmissionStore>
  ) throws {
    #expect(try Answered(driver.admit(job, id: id)) == .proceed)
    driver.remember(accepted, of: job, id: id)
    #expect(try Answered(driver.admit(job, id: id)) == .duplicate(accepted))
  }

  /// Their claims last longer or shorter, as while workers get another `apns.request_timeout_ms` one by one.
  @Test(
    arguments: [
      (48, 48), (48, 60), (48, 200), (60, 48), (60, 60), (60, 200), (200, 48), (200, 60), (200, 200), (400, 400),
    ] as [(Int64, Int64)])
  func aClaimIsAsOldToAllWorkers(makers: Int64, readers: Int64) throws {
    let server = try RedisServer.shared()
    let prefix = "ages-\(UInt64.random(in: 0 ... .max)):"
    let maker = try join(server, prefix: prefix, claimSeconds: makers)
    let reader = try join(server, prefix: prefix, claimSeconds: readers)
    let lost = makeJob(token: "lost")
    #expect(try Answered(maker.admit(job(1), id: 1)) == .proceed)
    #expect(try Answered(reader.admit(job(2), id: 2)) == .behind)
    #expect(try Answered(maker.admit(lost, id: 3)) == .proceed)
    #expect(try Answered(reader.answer(reader.ask(lost, id: 3, takeover: .oldClaims))) == .claimed)
    // Its worker hangs.
    try reader.turn(forMilliseconds: 2100)
    #expect(try Answered(reader.answer(reader.ask(job(2), id: 2, asksAgain: true))) == .proceed)
    #expect(try Answered(reader.answer(reader.ask(lost, id: 3, takeover: .oldClaims))) == .repeated(.proceed))
    maker.state.close()
    reader.state.close()
  }

  /// Redis took no writes while this lane sent a newer job, and heard that a token is dead. Both came after the answers of the other.
  @Test func anAnswerInRedisGoesBeforeWhatALaneRemembers() throws {
    let server = try RedisServer(configuration: ["maxmemory-policy noeviction"])
    let lane = try join(server)
    let other = try join(server)
    let gone = makeJob(token: "gone")
    try accept(job(1), id: 1, other)
    try accept(gone, id: 2, other)
    try server.cli(["CONFIG", "SET", "maxmemory", "1"])
    #expect(try Answered(lane.admit(job(5), id: 5)) == .repeated(.proceed))
    lane.remember(
      RememberedOutcome(outcome: .unregistered, status: 410, attempts: 1, sentAt: 5, completedAt: 6), of: gone, id: 6)
    #expect(try Answered(lane.answer(lane.ask(job(1), id: 1, isRedelivered: true))) == .duplicate(accepted))
    #expect(try Answered(lane.answer(lane.ask(gone, id: 2, isRedelivered: true))) == .duplicate(accepted))
    // Redis knows nothing of these.
    #expect(try Answered(lane.admit(job(3), id: 3)) == .repeated(.superseded))
    #expect(try Answered(lane.admit(gone, id: 7)) == .repeated(.dead(6)))
    #expect(lane.state.degradation(of: .duplicates) != nil, "what stores nothing proves no write")
    try server.cli(["CONFIG", "SET", "maxmemory", "0"])
    try lane.turn(untilWithinSeconds: 5, "recovered") { lane.state.degradation(of: .duplicates) == nil }
    #expect(try Answered(lane.admit(job(3), id: 3)) == .repeated(.superseded))
    #expect(try Answered(other.admit(job(4), id: 4)) == .proceed, "the one that is not sent holds up nobody")
    server.stop()
    try lane.turn(untilWithinSeconds: 8, "away") { !lane.state.isConnected }
    #expect(try Answered(lane.answer(lane.ask(job(1), id: 1, isRedelivered: true))) == .repeated(.superseded))
    lane.state.close()
    other.state.close()
  }
}
