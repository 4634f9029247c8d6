import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings

/// A service and its APNs on one loop, driven turn by turn.
final class APNsTestBench {
  let files: APNsTestFiles
  let loop: EventLoop
  let server: APNsTestServer
  let credentials: Credentials
  let service: APNsPushService
  private(set) var answers: [PushAnswer] = []
  private(set) var notices: [String] = []
  /// Held sends that were given back.
  private(set) var released: [Ticket] = []
  /// Called with each reported answer.
  var judge: ((APNsPushService, PushAnswer, Now) -> Void)?
  private var lastIndex: UInt32 = 0

  init(
    isTLS: Bool = false, port: UInt16? = nil, settings: HTTP2ServerSettings = HTTP2ServerSettings(),
    apps: [String] = ["com.example.app"], policies: ChannelPolicyCache? = nil,
    _ adjust: (inout APNsPushServiceConfiguration) -> Void = { _ in }
  ) throws {
    files = try APNsTestFiles()
    loop = try EventLoop()
    let tls =
      isTLS
      ? try TLSContext.server(
        certificateFile: files.serverCertificateFile, keyFile: files.serverKeyFile, alpn: ["h2"]) : nil
    server = try APNsTestServer(loop: loop, tls: tls, settings: settings)
    let kind = CredentialConfiguration.Kind.token(
      teamID: "DEF123GHIJ", keyID: "ABC123DEFG", keyFile: files.keyFile)
    credentials = try Credentials(
      [
        CredentialConfiguration(
          name: "main", kind: kind, environments: [.production, .sandbox], apps: apps)
      ], caFile: files.authorityFile)
    let scheme = isTLS ? "https" : "http"
    guard let host = APNsHost(url: "\(scheme)://127.0.0.1:\(port ?? server.port)") else {
      throw APNsTestFailure("no host")
    }
    var configuration = APNsPushServiceConfiguration(
      production: host, sandbox: host, broadcastProduction: host, broadcastSandbox: host)
    configuration.poolLimits.openIntervalMilliseconds = 20
    configuration.poolLimits.backoffFirstMilliseconds = 20
    adjust(&configuration)
    service = APNsPushService(
      loop: loop, credentials: credentials, configuration: configuration, policies: policies, seed: 1)
  }

  func job(_ token: String = "00fc13adff785122", payload: String = #"{"aps":{"alert":"hello"}}"#) -> PushJob {
    APNsTestFiles.job(app: "com.example.app", token: token, payload: payload)
  }

  /// One turn of the lane.
  func turn() {
    loop.poll(maximumWaitMilliseconds: 5)
    service.maintain(now: loop.now)
    while let ticket = service.nextReleased() { released.append(ticket) }
    while let answer = service.nextAnswer(now: loop.now) {
      answers.append(answer)
      judge?(service, answer, loop.now)
    }
    while let notice = service.takeNotice() { notices.append(notice.text) }
    server.turn()
    loop.flush()
  }

  /// Turns until the condition holds; false after `milliseconds`.
  func turn(milliseconds: Int64 = 15_000, until isDone: () -> Bool) -> Bool {
    if isDone() { return true }
    // The loop's clock shows its last turn, which may be long ago.
    turn()
    let start = loop.now.monotonic
    while !isDone() {
      turn()
      if loop.now.monotonic.milliseconds(since: start) > milliseconds { return false }
    }
    return true
  }

  /// Tries to send in this turn; with a ticket, as a lane that sends a job once more.
  func trySend(
    _ job: borrowing PushJob, apnsID: UUIDValue = UUIDValue(high: 1, low: 2), ticket again: Ticket? = nil,
    jobClass: JobClass = .transactional
  ) -> (SendDecision, Ticket) {
    lastIndex += 1
    let ticket = again ?? Ticket(index: lastIndex, generation: 1)
    guard let pool = try? service.route(for: job) else { preconditionFailure("the test's job has a route") }
    let decision = service.send(
      job, target: 0, apnsID: apnsID, pool: pool, ticket: ticket, jobClass: jobClass,
      transactionalInFlight: nil, now: loop.now)
    return (decision, ticket)
  }

  /// Sends once there is room.
  func send(
    _ job: borrowing PushJob, apnsID: UUIDValue = UUIDValue(high: 1, low: 2), ticket again: Ticket? = nil
  ) -> Ticket? {
    var sent: Ticket?
    let isSent = turn {
      let (decision, ticket) = trySend(job, apnsID: apnsID, ticket: again)
      if decision == .sent { sent = ticket }
      return decision == .sent
    }
    loop.flush()
    return isSent ? sent : nil
  }
}
