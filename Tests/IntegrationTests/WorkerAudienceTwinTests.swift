import PushCore
import PushStores
import TestSupport
import Testing

/// Jobs with one id.
extension WorkerAudienceTests {
  /// Whoever may publish jobs of one app spoils no job of another one by its id.
  @Test func jobsOfTwoAppsWithOneIDHaveTheirOwnEnds() throws {
    let world = try AudienceWorld("twins")
    try world.registry.register(0..<1, user: { _ in "u" })
    let configuration = world.world.configuration().replacing(
      "apps: [com.example.app]", with: "apps: [com.example.app, com.example.other]")
    let job = AudienceID("sale", in: try #require(AppScope(app: "com.example.other", environment: .production)))
    let other =
      #"{"version":1,"id":"sale","app":"com.example.other","push_type":"alert","to":{"users":["u","v"]},"payload":{"aps":{"alert":"x"}}}"#
    // It begins first, and stays paused.
    let opening = try world.registry.wait {
      world.registry.store.open(
        job, ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(), body: Array(other.utf8),
        then: $0)
    }
    #expect(opening == .evaluate(from: 0))
    _ = try world.registry.wait { world.registry.store.control(.pause, job, then: $0) }
    func show(_ options: String...) throws -> ChildProcess.Output {
      try world.world.herald(["jobs", "show", "sale"] + options, configuration: configuration)
    }
    #expect(try show().output.contains("com.example.other"), "the only app with such a job")
    let worker = try world.world.startWorker(configuration: configuration)
    try world.publish("sale", to: #"{"users":["u"]}"#)
    let end = try world.waitForEnd(of: "sale")
    #expect(end.outcome == "completed" && end.summary == ["devices": 1, "accepted": 1], "\(end)")
    let both = try show()
    #expect(
      both.status == 1
        && both.errors.contains(
          "sale is the id of several jobs: com.example.app in production, com.example.other in production"),
      "\(both)")
    #expect(try show("--app", "com.example.other").output.contains("paused"))
    #expect(try show("--app", "com.example.app", "--environment", "production").output.contains("completed"))
    #expect(try show("--app", "com.example.app", "--environment", "sandbox").errors.contains("sale is not known"))
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }
}
