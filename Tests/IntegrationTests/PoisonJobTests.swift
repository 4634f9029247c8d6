import Foundation
import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings
import TestSupport
import Testing

/// Jobs that crash the worker whenever it sends them, in lanes on a real broker. A worker's life ends in the middle of a turn, with
/// its connections, as in a crash.
@Suite(.timeLimit(.minutes(3)))
struct PoisonJobTests {
  @Test func poisonEndsAloneAsADeadLetter() throws {
    let prefix = "poison-\(UInt32.random(in: 0 ... .max))"
    let address = try AMQPAddress(try RabbitMQServer.shared().url)
    let topology = Topology(prefix: prefix, retryDelaysSeconds: [1])
    let admin = try AMQPAdmin(patient: address)
    defer { admin.close() }
    try admin.perform(all: topology.declarations)
    let outcomesQueue = "\(prefix).outcomes"
    try admin.perform(.declareQueue(name: outcomesQueue, arguments: []))
    try admin.perform(.bind(queue: outcomesQueue, exchange: topology.resultsExchange, routingKey: "#"))
    let exchange = AMQPExchange(topology.jobsExchange, isMandatory: true)
    let poison: Set<String> = ["job-7", "job-30"]
    let jobs = (0..<40).map { "job-\($0)" }
    for (number, id) in jobs.enumerated() {
      let body = """
        {"version":1,"id":"\(id)","app":"com.example.app","push_type":"alert",\
        "to":{"token":"\(String(repeating: "0", count: 60))\(1000 + number)"},"payload":{"aps":{"alert":"hello"}}}
        """
      try admin.publish(
        to: exchange, routingKey: id == "job-30" ? "bulk" : "transactional", properties: AMQPProperties(),
        body: Array(body.utf8))
    }
    try admin.waitForConfirms()

    let log = PoisonLog(poison: poison)
    var lives = 0
    let isolation = IsolationPolicy(isolationCount: 3, aloneLimit: 5)
    while lives < 60 {
      lives += 1
      if try live(address, topology, log, isolation) { break }
    }
    // Each poison job has eight deliveries that were not finished. It may share three of them with the other one. A crash between
    // publishing a copy and acknowledging the delivery adds more.
    #expect((13...40).contains(lives), "\(lives) lives")

    var letters: [AMQPMessage] = []
    let letterCount = try admin.messageCount(queue: topology.deadQueue) ?? 0
    try #require(letterCount > 0)
    try admin.consume(queue: topology.deadQueue, limit: letterCount, idleMilliseconds: 5000) {
      letters.append($0)
      return .acknowledge
    }
    #expect(Set(letters.map { DeadLetterID($0.body).id }) == poison)
    #expect(letters.allSatisfy { $0.header("x-herald-reason") == "failed" })
    #expect(letters.allSatisfy { $0.header("x-herald-detail")?.contains("deliveries were not finished") == true })
    #expect(letters.contains { $0.header("x-herald-class") == "bulk" })
    // The last worker may have sent it: a replay must know that.
    #expect(letters.allSatisfy { $0.metadata.isAmbiguous })

    var outcomes: [String: Set<String>] = [:]
    let outcomeCount = try admin.messageCount(queue: outcomesQueue) ?? 0
    try admin.consume(queue: outcomesQueue, limit: outcomeCount, idleMilliseconds: 5000) { message in
      let outcome = DeadLetterID(message.body)
      outcomes[outcome.id, default: []].insert(outcome.outcome)
      return .acknowledge
    }
    for id in jobs { #expect(outcomes[id] == [poison.contains(id) ? "failed" : "accepted"], "\(id)") }
    #expect(outcomes.count == jobs.count)
    for queue in topology.workQueues { #expect(try admin.messageCount(queue: queue) == 0, "\(queue)") }
  }

  private struct DeadLetterID: Decodable {
    var id = ""
    var outcome = ""

    private enum CodingKeys: String, CodingKey {
      case id, outcome
      case jobID = "job_id"
    }

    init(_ body: [UInt8]) {
      self = (try? JSONDecoder().decode(DeadLetterID.self, from: Data(body))) ?? DeadLetterID()
    }

    private init() {}

    init(from decoder: any Decoder) throws {
      let fields = try decoder.container(keyedBy: CodingKeys.self)
      id = try fields.decodeIfPresent(String.self, forKey: .id) ?? fields.decode(String.self, forKey: .jobID)
      outcome = try fields.decodeIfPresent(String.self, forKey: .outcome) ?? ""
    }
  }

  /// One worker's life. true: it finished all jobs; false: a job ended it.
  private func live(
    _ address: AMQPAddress, _ topology: Topology, _ log: PoisonLog, _ isolation: IsolationPolicy
  ) throws -> Bool {
    let loop = try EventLoop()
    var rabbitmq = RabbitMQSettings(
      addresses: [address], tls: nil, topology: topology, laneName: "poison/0", prefetch: 100, randomSeed: 1)
    rabbitmq.emptyPollMilliseconds = 100
    let broker = RabbitMQBroker(loop: loop, settings: rabbitmq)
    broker.watchUntilEmpty()
    var settings = LaneSettings(
      workerName: "poison/0", prefetch: 100, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
      randomSeed: 1)
    settings.isolation = isolation
    log.begin()
    var lane = Lane(
      broker: broker, state: OpenState(), push: PoisonPush(log: log), clock: TestClock(loop: loop), settings: settings)
    let end = loop.now.monotonic.adding(milliseconds: 30_000)
    while loop.now.monotonic < end {
      loop.poll(maximumWaitMilliseconds: 10)
      lane.turn()
      // A crash: the bytes that the turn queued are never written.
      if log.isDead { return false }
      loop.flush()
      if lane.isExhausted && lane.jobsInFlight == 0 { return true }
    }
    throw TestFailure("a life without end: \(lane.jobsInFlight) jobs in flight")
  }
}

/// Everything that the simulated APNs saw, in all lives.
private final class PoisonLog {
  let poison: Set<String>
  private(set) var isDead = false

  init(poison: Set<String>) { self.poison = poison }

  func begin() { isDead = false }

  func die() { isDead = true }
}

/// Answers 200 after some turns, so that a crash happens with many requests in flight.
private struct PoisonPush: PushService {
  let log: PoisonLog
  private var waiting: [(turn: Int, ticket: Ticket)] = []
  private var turn = 0

  init(log: PoisonLog) { self.log = log }

  func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex { PoolIndex(0) }

  mutating func maintain(now: Now) { turn += 1 }
  func room(for pool: PoolIndex) -> Int { 1000 }

  mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    let id = String(decoding: job.bytes[job.id.range], as: UTF8.self)
    if log.poison.contains(id) { log.die() }
    waiting.append((turn + 15, ticket))
    return .sent
  }

  mutating func nextAnswer(now: Now) -> PushAnswer? {
    guard let first = waiting.first, first.turn <= turn else { return nil }
    waiting.removeFirst()
    var answer = PushAnswer(ticket: first.ticket, kind: .response)
    answer.status = 200
    return answer
  }

  mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {}
  mutating func close() {}
}

/// Admits everything and remembers nothing.
private struct OpenState: AdmissionStore {
  private var waiting: [Ticket] = []

  mutating func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    waiting.append(ticket)
  }

  mutating func flush(now: Now) {}

  mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    waiting.isEmpty ? nil : (waiting.removeFirst(), .proceed)
  }

  mutating func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {}

  mutating func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now
  ) {}

  mutating func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {}
}

private struct TestClock: LaneClock {
  let loop: EventLoop
  var now: Now { loop.now }
}
