import APNsSimulator
import PushChannels
import PushCore
import PushCredentials
import PushIO
import PushSettings
import TestSupport

/// A strict simulator with its own CA, and our client for its management port, with a key or a certificate.
final class ChannelWorld: Sendable {
  enum Kind: CaseIterable {
    case token, certificate
  }

  static let app = SimulatorRequests.app
  static let scope = AppScope(app: app, environment: .production)!

  let simulator: Simulator
  let ports: SimulatorPorts
  let thread: AsyncChannelClient
  let credentials: Credentials
  private let folder: TemporaryFolder

  /// - Parameters:
  ///   - apps: what the credential is configured for.
  ///   - topics: what the certificate allows.
  init(
    _ kind: Kind = .token, environment: APNsEnvironment = .production, apps: [String] = [app],
    topics: [String] = [app], key: SimulatorCredential? = nil, tokens: ProviderTokens = ProviderTokens(),
    _ change: (inout SimulatorOptions) -> Void = { _ in },
    client adjust: (inout ChannelClientConfiguration) -> Void = { _ in }
  ) throws {
    folder = try TemporaryFolder("channels")
    let authority = try CertificateFactory(commonName: "channels CA")
    try authority.writeCertificate(to: folder.path("ca.pem"))
    try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1"]))
      .write(certificateFile: folder.path("server.pem"), keyFile: folder.path("server.key"))
    var request = CertificateFactory.Request(commonName: "Apple Push Services: \(ChannelWorld.app)")
    request.userID = ChannelWorld.app
    request.appleTopics = topics.flatMap { [$0, "app"] }
    try authority.issue(request).write(certificateFile: folder.path("c.pem"), keyFile: folder.path("c.key"))
    let key = try key ?? SimulatorCredential(team: "TEAM000001", key: "KEY0000001")
    var options = SimulatorOptions()
    options.environment = environment
    options.security = .files(
      certificate: folder.path("server.pem"), key: folder.path("server.key"), clientAuthority: folder.path("ca.pem"))
    options.keys = [try key.registration()]
    change(&options)
    simulator = try Simulator(options)
    ports = try simulator.start()
    let configured: CredentialConfiguration.Kind =
      switch kind {
      case .token:
        .token(teamID: key.team, keyID: key.key, keyFile: try key.write(to: folder.path("key")))
      case .certificate:
        .certificate(certificateFile: folder.path("c.pem"), privateKeyFile: folder.path("c.key"), passphrase: nil)
      }
    credentials = try Credentials(
      [CredentialConfiguration(name: "main", kind: configured, environments: [environment], apps: apps)],
      caFile: folder.path("ca.pem"), tokens: tokens)
    let host = APNsHost(host: "localhost", port: ports.managePort ?? 0)
    var configuration = ChannelClientConfiguration(production: host, sandbox: host)
    adjust(&configuration)
    thread = AsyncChannelClient(credentials: credentials, configuration: configuration)
  }

  deinit {
    thread.close()
    simulator.stop()
  }

  /// Makes a request for the usual app, or for a given one.
  func perform(
    _ operation: ChannelRequest.Operation, of app: String = app, in environment: APNsEnvironment = .production,
    requestID: UUIDValue? = nil
  ) async throws(ChannelFailure) -> ChannelAnswer {
    guard let scope = AppScope(app: app, environment: environment) else {
      preconditionFailure("the test's app is a bundle id")
    }
    return try await thread.perform(ChannelRequest(operation, in: scope, requestID: requestID))
  }

  func create(_ storage: StoragePolicy = .none) async throws -> ChannelID {
    guard case .created(let id) = try await perform(.create(storage)).content else {
      throw TestFailure("a create is answered with a channel")
    }
    return id
  }

  func list() async throws -> [ChannelID] {
    guard case .listed(let ids) = try await perform(.list).content else {
      throw TestFailure("a list is answered with channels")
    }
    return ids
  }

  /// The error of the call; nil: it succeeds.
  func failure(
    of operation: ChannelRequest.Operation, app: String = app, in environment: APNsEnvironment = .production
  ) async -> ChannelFailure? {
    do throws(ChannelFailure) {
      _ = try await perform(operation, of: app, in: environment)
      return nil
    } catch {
      return error
    }
  }

  /// The channels that the simulator has.
  func existing(of app: String = app) -> Int {
    var count = 0
    simulator.configure { count = $0.channels.count(of: app) }
    return count
  }

  /// Polls the simulator's ledger until the condition holds; false: not within a minute. Blocks no other task.
  func until(_ condition: @Sendable (borrowing Ledger) -> Bool) async throws -> Bool {
    try await ChannelWorld.until { self.simulator.readLedger { condition($0) } }
  }

  static func until(_ condition: () -> Bool) async throws -> Bool {
    let deadline = ContinuousClock.now.advanced(by: .seconds(60))
    while !condition() {
      if ContinuousClock.now > deadline { return false }
      try await Task.sleep(for: .milliseconds(5))
    }
    return true
  }
}
