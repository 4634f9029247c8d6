import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings
import TestSupport
import Testing

/// The memory of hundreds of credentials.
@Suite(.timeLimit(.minutes(5)))
struct CredentialMemoryTests {
  private static let count = 300

  private static func tokens(_ files: APNsTestFiles) -> [CredentialConfiguration] {
    (0..<count).map { number in
      CredentialConfiguration(
        name: "credential-\(number)",
        kind: .token(
          teamID: "TEAM\(100_000 + number)", keyID: "KEY\(1_000_000 + number)", keyFile: files.keyFile),
        environments: APNsEnvironment.allCases, apps: ["com.example.app\(number)"])
    }
  }

  @Test func tokenCredentialsShareOneContext() throws {
    let files = try APNsTestFiles()
    let credentials = try Credentials(CredentialMemoryTests.tokens(files), caFile: files.authorityFile)
    #expect(Set(credentials.all.compactMap { $0.map { ObjectIdentifier($0.tls) } }).count == 1)
    // A reload reads the CA certificates again.
    let reloaded = try Credentials(
      CredentialMemoryTests.tokens(files), caFile: files.authorityFile, tokens: credentials.tokens,
      replacing: credentials)
    #expect(reloaded.all[0]?.tls !== credentials.all[0]?.tls)
    #expect(reloaded.all[0]?.tls === reloaded.all[299]?.tls)
  }

  @Test func eachCertificateHasAContext() throws {
    let files = try APNsTestFiles()
    let credentials = try Credentials(
      (0..<3).map { number in
        CredentialConfiguration(
          name: "certificate-\(number)",
          kind: .certificate(
            certificateFile: files.clientCertificateFile, privateKeyFile: files.clientKeyFile, passphrase: nil),
          environments: [.production], apps: ["com.example.app\(number)"])
      }, caFile: files.authorityFile)
    #expect(Set(credentials.all.compactMap { $0.map { ObjectIdentifier($0.tls) } }).count == 3)
    #expect(credentials.all.allSatisfy { $0?.tls.certificateFacts != nil })
  }

  /// Before the first job: the credentials, their certificates' contexts, and a lane's view of them.
  @Test func credentialsAreSmall() async throws {
    await #expect(processExitsWith: .success) {
      let files = try APNsTestFiles()
      let loop = try EventLoop()
      // The first credential also loads OpenSSL.
      let first = try Credentials(Array(CredentialMemoryTests.tokens(files).prefix(1)), caFile: files.authorityFile)
      let before = try #require(ProcessUsage.anonymousBytes)
      let credentials = try Credentials(CredentialMemoryTests.tokens(files), caFile: files.authorityFile)
      let loaded = try #require(ProcessUsage.anonymousBytes)
      // The CA certificates once more, and each credential's own part.
      #expect(loaded - before < 4 << 20 + Int64(CredentialMemoryTests.count) * 10 << 10, "\(loaded - before) bytes")
      let host = APNsHost(host: "127.0.0.1", port: 1)
      let push = APNsPushService(
        loop: loop, credentials: credentials,
        configuration: APNsPushServiceConfiguration(
          production: host, sandbox: host, broadcastProduction: host, broadcastSandbox: host), seed: 1)
      push.maintain(now: loop.now)
      let lane = try #require(ProcessUsage.anonymousBytes)
      #expect(lane - loaded < Int64(CredentialMemoryTests.count) << 10, "\(lane - loaded) bytes")
      withExtendedLifetime((first, credentials, push)) {}
    }
  }

  /// After a job for each: one connection to APNs with TLS and HTTP/2, and a lane's state for it. Most of it belongs to OpenSSL
  /// and nghttp2.
  @Test func quietConnectionsAreSmall() async throws {
    await #expect(processExitsWith: .success) {
      let simulator = try SimulatorProcess()
      // From now on it accepts any team's key.
      simulator.stop()
      try simulator.start()
      let files = try APNsTestFiles()
      let credentials = try Credentials(CredentialMemoryTests.tokens(files), caFile: simulator.authorityFile)
      let loop = try EventLoop()
      let host = try #require(APNsHost(url: "https://127.0.0.1:\(simulator.port)"))
      let push = APNsPushService(
        loop: loop, credentials: credentials,
        configuration: APNsPushServiceConfiguration(
          production: host, sandbox: host, broadcastProduction: host, broadcastSandbox: host), seed: 1)
      func send(_ numbers: Range<Int>) throws {
        var waiting = Array(numbers)
        var answered = 0
        while answered < numbers.count {
          loop.poll(maximumWaitMilliseconds: 5)
          push.maintain(now: loop.now)
          while let answer = push.nextAnswer(now: loop.now) {
            try #require(answer.status == 200, "\(answer)")
            answered += 1
          }
          waiting.removeAll { number in
            let job = APNsTestFiles.job(app: "com.example.app\(number)", token: "00fc13adff785122")
            guard let pool = try? push.route(for: job) else { return false }
            let id = UUIDValue(high: 0x8C1F_6F0E_3A57_4D0C, low: 0x9F0E_0000_0000_0000 | UInt64(number))
            return push.send(
              job, target: 0, apnsID: id, pool: pool, ticket: Ticket(index: UInt32(number), generation: 1),
              jobClass: .transactional, transactionalInFlight: nil, now: loop.now) == .sent
          }
          while push.takeNotice() != nil {}
          loop.flush()
        }
      }
      try send(0..<1)
      let first = try #require(ProcessUsage.anonymousBytes)
      try send(1..<CredentialMemoryTests.count)
      let all = try #require(ProcessUsage.anonymousBytes)
      let each = (all - first) / Int64(CredentialMemoryTests.count - 1)
      #expect(each < 72 << 10, "\(each) bytes")
      #expect(push.counters.connectionsOpened == CredentialMemoryTests.count)
      withExtendedLifetime((files, simulator)) {}
    }
  }
}
