import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// Workers that share a Redis and differ in their configuration.
@Suite(.timeLimit(.minutes(2)))
struct RedisFleetTests {
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
}
