import PushChannels
import PushCore
import PushCredentials
import PushIO
import PushSettings
import TestSupport
import Testing

/// Which credential manages an app's channels, and which settings the client uses.
@Suite struct ChannelCredentialTests {
  private let files: TemporaryFolder

  init() throws {
    files = try TemporaryFolder("channel-credentials")
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    try files.write(String(decoding: signer.privateKeyPEM(), as: UTF8.self), to: "AuthKey.p8")
    let authority = try CertificateFactory(commonName: "test CA")
    for (name, topics) in [("app", ["com.example.app"]), ("voip", ["com.example.app.voip"])] {
      var request = CertificateFactory.Request(commonName: "Apple Push Services: \(name)")
      request.appleTopics = topics.flatMap { [$0, "app"] }
      try authority.issue(request).write(
        certificateFile: files.path("\(name).pem"), keyFile: files.path("\(name).key"))
    }
  }

  private func key(
    _ name: String, _ apps: [String] = ["com.example.app"], _ environments: [APNsEnvironment] = [.production],
    topics: [String]? = nil
  ) -> CredentialConfiguration {
    CredentialConfiguration(
      name: name, kind: .token(teamID: "DEF123GHIJ", keyID: "KEY\(name)", keyFile: files.path("AuthKey.p8")),
      environments: environments, apps: apps, topics: topics)
  }

  private func certificate(_ name: String) -> CredentialConfiguration {
    CredentialConfiguration(
      name: name,
      kind: .certificate(
        certificateFile: files.path("\(name).pem"), privateKeyFile: files.path("\(name).key"), passphrase: nil),
      environments: [.production], apps: ["com.example.app"])
  }

  /// The name of the credential that serves, or why there is none.
  private func choose(
    _ configured: [CredentialConfiguration], app: String = "com.example.app",
    _ environment: APNsEnvironment = .production, credential: String? = nil
  ) throws -> String {
    let credentials = try Credentials(configured)
    let scope = try #require(AppScope(app: app, environment: environment))
    do throws(RoutingError) {
      return credentials.all[try credentials.place(for: ChannelRequest(.list, in: scope, credential: credential))]?.name
        ?? "nobody"
    } catch {
      return error.detail
    }
  }

  @Test func theFirstThatFits() throws {
    #expect(try choose([key("other", ["com.example.two"]), key("one"), key("two")]) == "one")
    #expect(try choose([certificate("app"), key("one")]) == "one", "keys before certificates")
    #expect(try choose([certificate("voip"), certificate("app")]) == "app")
    #expect(try choose([key("voip", topics: ["com.example.app.voip"]), key("one")]) == "one")
    #expect(try choose([key("live", topics: ["com.example.app.push-type.liveactivity"])]) == "live")
    #expect(try choose([key("one"), key("two")], credential: "two") == "two")
  }

  @Test func nobodyAndWhy() throws {
    #expect(
      try choose([key("one")], app: "com.example.two")
        == "no credential serves \"com.example.two\": add it to a credential's apps")
    #expect(
      try choose([key("one")], .sandbox)
        == "no credential serves \"com.example.app\" in sandbox: add it to a credential's environments")
    #expect(
      try choose([key("one")], credential: "two")
        == "no credential \"two\" serves \"com.example.app\" in production")
    #expect(
      try choose([certificate("voip")]) == "no topic of \"com.example.app\" that has channels belongs to voip")
  }

  @Test func theConfigurationIsTaken() throws {
    let file = try files.write(
      """
      apns: {manage_production: "https://one.example:3000", manage_sandbox: "https://two.example", request_timeout_ms: 4000,
        proxy: "http://me:word@proxy.example:8080"}
      """, to: "herald.yaml")
    let configuration = ChannelClientConfiguration(try ConfigurationLoader.load(file: file).apns)
    #expect(configuration.production.endpoint.description == "one.example:3000")
    #expect(configuration.production.authority == "one.example:3000")
    #expect(configuration.sandbox.endpoint.host == "two.example")
    #expect(configuration.requestTimeoutMilliseconds == 4000)
    #expect(configuration.connectOptions.proxy?.endpoint.description == "proxy.example:8080")
  }
}
