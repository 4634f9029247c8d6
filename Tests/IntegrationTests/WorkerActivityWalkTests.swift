import TestSupport
import Testing

/// The walk-through of a Live Activity by its id, in `docs/live-activities.md`.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerActivityWalkTests {
  @Test func theWalkThroughIsTrue() throws {
    let rabbitmq = try RabbitMQServer.shared()
    let prefix = "walk-\(UInt32.random(in: 0 ... .max))"
    var walk = try WalkThrough("live-activities.md", ["Set up", "By an id of your own"])
    for port in ["8443", "8444", "2196"] { try walk.replace(port, with: String(try LoopbackPort.free())) }
    // On a busy machine the first steps take longer than a reader's would.
    let slower = "\(rabbitmq.url) --registrations-queue \(prefix).registrations --fault prefix=ac71,register=15000"
    try walk.replace("amqp://guest:guest@127.0.0.1:5672/", with: slower)
    let folder = try TemporaryFolder("walk")
    let environment = [
      "HERALD_RABBITMQ_URL=\(rabbitmq.url)", "HERALD_RABBITMQ_PREFIX=\(prefix)",
      "HERALD_REDIS_URL=\(try RedisServer.shared().url)", "HERALD_REDIS_PREFIX=\(prefix):", "HERALD_ADMIN_PORT=0",
    ]
    let result = try walk.run(
      in: folder, environment: ChildProcess.inheritedEnvironment(without: ["HERALD_", "PATH="]) + environment,
      timeoutMilliseconds: 90_000)
    #expect(result.status == 0, "\(result.errors)\(folder.read("herald.log").suffix(3_000))")
    #expect(result.output == walk.expected)
    #expect(walk.expected.contains("ride-17-update/late/hwid-2"), "the page says what its commands print")
  }
}
