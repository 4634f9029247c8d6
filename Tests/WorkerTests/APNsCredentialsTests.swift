import PushCore
import PushCredentials
import PushIO
import PushSettings
import TestSupport
import Testing

/// Which credential serves which job, and the error if none does.
@Suite struct APNsCredentialsTests {
  /// A folder with a signing key and a client certificate, removed with the value's owner.
  private static func files() throws -> APNsTestFiles { try APNsTestFiles() }

  private func token(
    _ name: String, _ files: APNsTestFiles, apps: [String], environments: [APNsEnvironment] = [.production, .sandbox]
  ) -> CredentialConfiguration {
    CredentialConfiguration(
      name: name, kind: .token(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", keyFile: files.keyFile),
      environments: environments, apps: apps)
  }

  private func certificate(
    _ name: String, _ files: APNsTestFiles, apps: [String], environments: [APNsEnvironment] = [.production]
  ) -> CredentialConfiguration {
    CredentialConfiguration(
      name: name,
      kind: .certificate(
        certificateFile: files.clientCertificateFile, privateKeyFile: files.clientKeyFile, passphrase: nil),
      environments: environments, apps: apps)
  }

  private func route(
    _ credentials: Credentials, app: String, type: PushType = .alert, environment: APNsEnvironment = .production,
    credential: String = "", isBroadcast: Bool = false
  ) -> String {
    var job = APNsTestFiles.job(app: app, token: "00ff", type: type, environment: environment, credential: credential)
    if isBroadcast { job.targetKind = .channel }
    do throws(RoutingError) {
      let pool = try credentials.route(for: job)
      let place = Credentials.place(of: pool)
      let rest = Int(pool.value) % (Credentials.poolKinds * Credentials.environments)
      return "\(credentials.all[place]?.name ?? "?")/\(rest / Credentials.poolKinds)/\(rest % Credentials.poolKinds)"
    } catch {
      return "\(error.field): \(error.detail)"
    }
  }

  @Test func theAppDecides() throws {
    let files = try APNsCredentialsTests.files()
    let credentials = try Credentials([
      token("main", files, apps: ["com.example.app", "com.example.other"]),
      certificate("wallet", files, apps: ["pass.com.example"]),
    ])
    #expect(route(credentials, app: "com.example.app") == "main/0/0")
    #expect(route(credentials, app: "com.example.other", environment: .sandbox) == "main/1/0")
    #expect(route(credentials, app: "pass.com.example") == "wallet/0/0")
    #expect(route(credentials, app: "com.example.app", type: .liveactivity, isBroadcast: true) == "main/0/2")
    #expect(
      route(credentials, app: "com.example")
        == "app: no credential serves \"com.example\": add it to a credential's apps")
    #expect(
      route(credentials, app: "pass.com.example", environment: .sandbox)
        == "environment: no credential serves \"pass.com.example\" in sandbox")
    #expect(
      route(credentials, app: "pass.com.example", type: .liveactivity)
        == "push_type: needs a signing key, and \"pass.com.example\" has only certificates in production")
    #expect(
      route(credentials, app: "com.example.app", type: .mdm)
        == "push_type: needs a certificate, and \"com.example.app\" has only signing keys in production")
  }

  /// The first credential's new key is good; the second credential is broken. Whatever is wrong with it, and however late the loader
  /// finds it, the old key stays in use with its handle and token.
  @Test func aReloadThatFailsChangesNothing() throws {
    let files = try APNsCredentialsTests.files()
    let tokens = ProviderTokens()
    let now = Now(monotonic: Instant(nanoseconds: 1_000_000_000_000), unixMilliseconds: 1_795_262_400_000)
    let credentials = try Credentials([token("main", files, apps: ["com.example.app"])], tokens: tokens)
    guard case .token(let handle) = credentials.all[0]?.authorization else {
      Issue.record("a key has a provider token")
      return
    }
    let carried = try #require(tokens.current(handle, now: now, random: 0))
    let other = try ProviderTokenSigner(newKeyFor: "other")
    try files.folder.write(String(decoding: other.privateKeyPEM(), as: UTF8.self), to: "AuthKey.p8")
    try files.folder.write("no key", to: "broken.p8")
    func second(_ keyFile: String) -> CredentialConfiguration {
      CredentialConfiguration(
        name: "second", kind: .token(teamID: "DEF123GHIJ", keyID: "XYZ123DEFG", keyFile: keyFile),
        environments: [.production], apps: ["com.example.other"])
    }
    for (broken, countMaximum) in [
      (second(files.missingFile), 10), (second(files.folder.path("broken.p8")), 10), (second(files.keyFile), 1),
    ] {
      #expect(throws: CredentialError.self) {
        try Credentials(
          [token("main", files, apps: ["com.example.app"]), broken], tokens: tokens, replacing: credentials,
          countMaximum: countMaximum)
      }
      #expect(tokens.snapshots().map(\.keyID) == ["ABC123DEFG"])
      #expect(tokens.register(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", signer: files.signer) == handle)
      #expect(tokens.current(handle, now: now, random: 0)?.authorization == carried.authorization)
    }
    // A good configuration replaces it.
    let good = try Credentials(
      [token("main", files, apps: ["com.example.app"])], tokens: tokens, replacing: credentials)
    guard case .token(let newer) = good.all[0]?.authorization else {
      Issue.record("a key has a provider token")
      return
    }
    #expect(newer != handle)
  }

  @Test func thePushTypeDecidesBetweenKinds() throws {
    let files = try APNsCredentialsTests.files()
    let credentials = try Credentials([
      token("key", files, apps: ["com.example.app"]), certificate("cert", files, apps: ["com.example.app"]),
    ])
    #expect(route(credentials, app: "com.example.app", type: .location) == "key/0/0")
    #expect(route(credentials, app: "com.example.app", type: .mdm) == "cert/0/0")
    #expect(route(credentials, app: "com.example.app", environment: .sandbox) == "key/1/0")
    #expect(
      route(credentials, app: "com.example.app")
        == "credential: several serve \"com.example.app\" in production: \"key\", \"cert\"; name one")
  }

  @Test func aNamedCredentialMustFit() throws {
    let files = try APNsCredentialsTests.files()
    let credentials = try Credentials([
      token("key", files, apps: ["com.example.app"], environments: [.production]),
      certificate("cert", files, apps: ["com.example.app"]),
    ])
    let app = "com.example.app"
    #expect(route(credentials, app: app, credential: "cert") == "cert/0/0")
    #expect(route(credentials, app: app, credential: "key") == "key/0/0")
    #expect(route(credentials, app: app, credential: "keys") == "credential: no credential is named \"keys\"")
    #expect(
      route(credentials, app: "com.other", credential: "key")
        == "credential: \"key\" does not list app \"com.other\" in its apps")
    #expect(
      route(credentials, app: app, environment: .sandbox, credential: "key")
        == "environment: credential \"key\" is not for sandbox")
    #expect(
      route(credentials, app: app, type: .liveactivity, credential: "cert")
        == "credential: \"cert\" is a certificate; this push type needs a signing key")
  }

  @Test func hundredsOfAppsAreFound() throws {
    let files = try APNsCredentialsTests.files()
    let apps = (0..<500).map { "com.example.app\($0)" }
    let credentials = try Credentials([token("main", files, apps: apps)])
    for app in apps { #expect(route(credentials, app: app) == "main/0/0") }
    #expect(route(credentials, app: "com.example.app500").hasPrefix("app: no credential"))
  }

  @Test func whatIsWrongWithAConfigurationIsSaid() throws {
    let files = try APNsCredentialsTests.files()
    func failure(_ configurations: [CredentialConfiguration]) -> String? {
      do throws(CredentialError) { _ = try Credentials(configurations) } catch { return error.description }
      return nil
    }
    let good = token("main", files, apps: ["a"])
    #expect(failure([good]) == nil)
    #expect(failure([good, good]) == "credential \"main\": is defined twice: names are unique")
    #expect(failure([token("main", files, apps: [])])?.contains("serves no app") == true)
    #expect(failure([token("main", files, apps: ["a"], environments: [])])?.contains("serves no environment") == true)
    var missing = good
    missing.kind = .token(teamID: "T", keyID: "K", keyFile: files.missingFile)
    #expect(failure([missing])?.contains("none.p8: no such file") == true)
    var strange = good
    strange.kind = .token(teamID: "T\"", keyID: "K", keyFile: files.keyFile)
    #expect(failure([strange])?.contains("team_id") == true)
    var swapped = certificate("cert", files, apps: ["a"])
    swapped.kind = .certificate(
      certificateFile: files.keyFile, privateKeyFile: files.clientKeyFile, passphrase: nil)
    #expect(failure([swapped]) != nil)
  }

  @Test func aReloadKeepsPlacesAndTokens() throws {
    let files = try APNsCredentialsTests.files()
    let tokens = ProviderTokens()
    let old = try Credentials(
      [token("one", files, apps: ["a"]), token("two", files, apps: ["b"])], tokens: tokens)
    let newer = try Credentials(
      [token("three", files, apps: ["c"]), token("two", files, apps: ["b", "d"])], tokens: tokens, replacing: old)
    #expect(newer.all.map { $0?.name } == [nil, "two", "three"])
    #expect(route(newer, app: "d") == "two/0/0")
    #expect(route(newer, app: "a").hasPrefix("app: no credential"))
    #expect(tokens.snapshots().count == 1, "one token for one (team, key)")
  }
}
