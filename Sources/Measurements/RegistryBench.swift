import ArgumentParser
import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushStores

struct RegistryBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "registry",
    abstract: "Stores devices in a real Redis: bytes a device, CPU and registrations a second.",
    discussion: """
      A device has an id (UUID), an alert token of 32 bytes, a push-to-start token of 80, a user, a locale, an OS version, a \
      time zone and eight tags. Each is registered once, and then again a day later with another level. With --queue the \
      registrations go through RabbitMQ and a worker's registration consumer.
      """)

  @Option(help: "Devices.")
  var devices = 100_000

  @Flag(help: "Through RabbitMQ (HERALD_RABBITMQ_URL, else 127.0.0.1) and a registration consumer.")
  var queue = false

  @Option(help: "Where Redis is. Default: HERALD_REDIS_URL, else 127.0.0.1:6379.")
  var url: String?

  @Flag(help: "Leave the devices in Redis.")
  var keep = false

  @Flag(help: "Print one JSON object instead of a table.")
  var json = false

  private static let inFlightMaximum = 1_000

  func validate() throws {
    if devices < 1 { throw ValidationError("--devices must be at least 1, not \(devices)") }
  }

  func run() throws {
    let address = url ?? BenchRedis.url
    let session = try BenchRedis.session(address)
    defer { session.close() }
    var figures = Figures()
    let prefix = "b\(UUID().uuidString.prefix(3)):"
    guard let scope = AppScope(app: "com.example.app", environment: .production) else { return }
    let sample = RegistrySample(devices: devices, scope: scope)
    let before = try memory(session)
    for (round, name) in ["new", "again"].enumerated() {
      // Producers write them elsewhere.
      let bodies = queue ? (0..<devices).map { sample.body($0, round: round) } : []
      let serverUsed = try serverMicroseconds(session)
      let used = ProcessUsage.current.cpuMicroseconds
      let start = ContinuousClock.now
      if queue {
        try RegistryQueueBench(redis: address, prefix: prefix).run(bodies)
      } else {
        try drive(sample, round: round, address, prefix)
      }
      let elapsed = microseconds(since: start)
      let count = Double(devices)
      figures.add("\(name): rate", count / elapsed * 1e6, "registrations/s")
      figures.add("\(name): here", Double(ProcessUsage.current.cpuMicroseconds - used) / count, "CPU µs each")
      figures.add("\(name): server", (try serverMicroseconds(session) - serverUsed) / count, "CPU µs each")
      figures.add("\(name): memory", (try memory(session) - before) / count, "bytes/device")
    }
    if !keep { try BenchRedis.remove(prefix: prefix, from: session) }
    try figures.show("registry: \(devices) devices\(queue ? " through the queue" : "")", json: json)
  }

  private func drive(_ sample: RegistrySample, round: Int, _ address: String, _ prefix: String) throws {
    let loop = try EventLoop()
    let redis = RedisClient(
      loop: loop, configuration: try RedisConfiguration(url: address), tls: nil, timeoutMilliseconds: 60_000, seed: 1)
    let registry = DeviceRegistry(loop: loop, redis: redis, prefix: prefix, seed: 1)
    var asked = 0
    var answered = 0
    var failure: DeviceRegistryFailure?
    while answered < sample.devices, failure == nil {
      while asked < sample.devices, asked - answered < RegistryBench.inFlightMaximum {
        let registration = try RegistrationParser.parse(sample.body(asked, round: round), now: sample.at(round))
        guard case .device(let device) = registration.subject else { continue }
        registry.register(device, at: registration.at, in: registration.scope) { result in
          answered += 1
          if case .failure(let error) = result { failure = error }
        }
        asked += 1
      }
      registry.turn()
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 100)
      redis.turn()
    }
    redis.close()
    loop.flush()
    if let failure { throw failure }
  }

  private func memory(_ session: RedisSession) throws -> Double { try info("memory", ["used_memory"], session) }

  /// The server's CPU so far, by its own count, microseconds.
  private func serverMicroseconds(_ session: RedisSession) throws -> Double {
    try info("cpu", ["used_cpu_sys", "used_cpu_user"], session) * 1e6
  }

  private func info(_ section: String, _ names: [String], _ session: RedisSession) throws -> Double {
    let text = try session.run([RedisSession.Command(["INFO", section], key: "")]).first?.text ?? ""
    var sum = 0.0
    for line in text.split(whereSeparator: \.isNewline) {
      let parts = line.split(separator: ":")
      if parts.count == 2, names.contains(String(parts[0])) { sum += Double(parts[1]) ?? 0 }
    }
    return sum
  }
}
