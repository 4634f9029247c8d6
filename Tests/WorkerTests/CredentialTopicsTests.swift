import Foundation
import PushCore
import PushCredentials
import PushIO
import PushOperations
import PushSettings
import TestSupport
import Testing

/// The topics that a credential may send to, of certificates and of topic-specific keys, and the findings of `herald check`.
@Suite struct CredentialTopicsTests {
  private let files: TemporaryFolder
  private let authority: CertificateFactory

  init() throws {
    files = try TemporaryFolder("topics")
    authority = try CertificateFactory(commonName: "Herald test authority")
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    try files.write(String(decoding: signer.privateKeyPEM(), as: UTF8.self), to: "AuthKey.p8")
  }

  private func certificate(
    _ name: String, topics: [String] = [], userID: String? = nil, notBefore: Int64? = nil, notAfter: Int64? = nil
  ) throws {
    var request = CertificateFactory.Request(commonName: "Apple Push Services: \(name)")
    request.appleTopics = topics
    request.userID = userID
    request.notBeforeUnixSeconds = notBefore
    request.notAfterUnixSeconds = notAfter
    let issued = try authority.issue(request)
    try issued.write(certificateFile: files.path("\(name).pem"), keyFile: files.path("\(name).key"))
    try issued.writePKCS12(file: files.path("\(name).p12"), passphrase: "correct horse")
  }

  private func key(_ name: String, _ id: String = "ABC123DEFG", apps: [String], topics: [String]? = nil)
    -> CredentialConfiguration
  {
    CredentialConfiguration(
      name: name, kind: .token(teamID: "DEF123GHIJ", keyID: id, keyFile: files.path("AuthKey.p8")),
      environments: [.production], apps: apps, topics: topics)
  }

  private func archive(_ name: String, apps: [String], passphrase: Secret = "correct horse") -> CredentialConfiguration
  {
    CredentialConfiguration(
      name: name, kind: .pkcs12(file: files.path("\(name).p12"), passphrase: passphrase), environments: [.production],
      apps: apps)
  }

  private func route(
    _ credentials: Credentials, _ app: String, _ type: PushType, topic: String? = nil, credential: String = "",
    isBroadcast: Bool = false
  ) -> String {
    var job = APNsTestFiles.job(app: app, token: "00ff", type: type, credential: credential)
    if isBroadcast { job.targetKind = .channel }
    let own = Array((topic ?? app + type.rules.topicSuffix).utf8)
    job.topic = ByteRange(start: job.bytes.count, count: own.count)
    job.bytes += own
    do throws(RoutingError) {
      return credentials.all[Credentials.place(of: try credentials.route(for: job))]?.name ?? "?"
    } catch {
      return "\(error.field): \(error.detail)"
    }
  }

  // MARK: Choice

  @Test func certificatesSendTheTopicsOfTheirExtensions() throws {
    try certificate(
      "app", topics: ["com.example.app", "app", "com.example.app.voip", "voip"], userID: "com.example.app")
    try certificate("calls", topics: ["com.example.app.voip-ptt", "ptt"])
    let credentials = try Credentials([
      archive("app", apps: ["com.example.app"]), archive("calls", apps: ["com.example.app"]),
    ])
    #expect(route(credentials, "com.example.app", .alert) == "app")
    #expect(route(credentials, "com.example.app", .voip) == "app")
    #expect(route(credentials, "com.example.app", .pushtotalk) == "calls")
    #expect(
      route(credentials, "com.example.app", .complication)
        == "topic: no credential may send to \"com.example.app.complication\": it is no topic of \"app\", \"calls\"")
    #expect(
      route(credentials, "com.example.app", .alert, credential: "calls") == """
        credential: "calls" may not send to topic "com.example.app", only to com.example.app.voip-ptt
        """)
    #expect(route(credentials, "com.example.app", .alert, topic: "com.example.app.voip-ptt") == "calls")
    #expect(route(credentials, "com.example.app", .other, topic: "com.example.app") == "app")
    #expect(credentials.all.allSatisfy { $0?.warnings.isEmpty == true })
  }

  @Test func aCertificateWithoutExtensionsSendsItsUserID() throws {
    try certificate("mdm", userID: "com.apple.mgmt.External.1")
    let credentials = try Credentials([archive("mdm", apps: ["com.apple.mgmt.External.1", "com.example.other"])])
    #expect(route(credentials, "com.apple.mgmt.External.1", .mdm) == "mdm")
    #expect(
      route(credentials, "com.example.other", .alert)
        == "topic: no credential may send to \"com.example.other\": \"mdm\" may send only to com.apple.mgmt.External.1")
    #expect(
      credentials.all[0]?.warnings == ["credential \"mdm\": the certificate has no topic of com.example.other"])
  }

  @Test func responsesOfAccessoriesNeedASigningKey() throws {
    let topic = "com.example.app.push-type.accessory"
    try certificate("cert", topics: ["com.example.app", topic])
    let alone = try Credentials([archive("cert", apps: ["com.example.app"])])
    #expect(
      route(alone, "com.example.app", .accessory)
        == "push_type: needs a signing key, and \"com.example.app\" has only certificates in production")
    #expect(
      route(alone, "com.example.app", .accessory, credential: "cert")
        == "credential: \"cert\" is a certificate; this push type needs a signing key")
    let both = try Credentials([
      archive("cert", apps: ["com.example.app"]), key("key", apps: ["com.example.app"], topics: [topic]),
    ])
    #expect(route(both, "com.example.app", .accessory) == "key")
    #expect(route(both, "com.example.app", .alert) == "cert")
  }

  @Test func topicSpecificKeysStandBesideOthers() throws {
    let app = "com.example.app"
    let credentials = try Credentials([
      key("calls", "CALLS00001", apps: [app], topics: ["\(app).voip", "\(app).voip-ptt"]),
      key("alerts", "ALERTS0001", apps: [app], topics: [app]),
      key("widgets", "WIDGETS001", apps: [app], topics: ["\(app).push-type.widgets", app]),
    ])
    #expect(route(credentials, app, .voip) == "calls")
    #expect(route(credentials, app, .pushtotalk) == "calls")
    #expect(route(credentials, app, .widgets) == "widgets")
    #expect(
      route(credentials, app, .alert)
        == "credential: several serve \"\(app)\" in production: \"alerts\", \"widgets\"; name one")
    #expect(route(credentials, app, .alert, credential: "widgets") == "widgets")
    #expect(
      route(credentials, app, .location)
        == "topic: no credential may send to \"\(app).location-query\": it is no topic of \"calls\", \"alerts\", \"widgets\""
    )
  }

  @Test func aTopicBelongsToItsAppUnlessTheCredentialListsIt() throws {
    let (app, other) = ("com.example.app", "com.example.other")
    let foreign = { (topic: String) in
      """
      topic: "\(topic)" does not belong to app "\(app)": it must be the app, or begin with "\(app).", or, but for a broadcast, stand in \
      apps or topics of the credential
      """
    }
    let apart = try Credentials([
      key("own", "OWN0000001", apps: [app]), key("others", "OTHERS0001", apps: [other]),
    ])
    for topic in [other, "\(other).voip", "com.example.application", "com.example", "com.example.app-2"] {
      #expect(route(apart, app, .alert, topic: topic) == foreign(topic))
      #expect(route(apart, app, .alert, topic: topic, credential: "own") == foreign(topic))
    }
    for isBroadcast in [false, true] {
      let refusal = route(apart, app, .liveactivity, credential: "others", isBroadcast: isBroadcast)
      #expect(refusal.hasPrefix("credential: "), "another app's: \(refusal)")
    }
    for topic in [app, "\(app).voip", "\(app).push-type.new"] {
      #expect(route(apart, app, .alert, topic: topic) == "own")
      #expect(route(apart, app, .other, topic: topic, credential: "own") == "own")
    }
    // Another app may begin with this one's id.
    let beta = "\(app).beta"
    let staged = try Credentials([key("own", "OWN0000001", apps: [app]), key("beta", "OTHERS0001", apps: [beta])])
    for topic in [beta, "\(beta).voip"] {
      let refusal =
        "topic: \"\(topic)\" belongs to app \"\(beta)\", not to \"\(app)\": no credential lists both in its apps or topics"
      #expect(route(staged, app, .alert, topic: topic) == refusal)
      #expect(route(staged, app, .voip, topic: topic, credential: "own") == refusal)
      #expect(route(staged, beta, .alert, topic: topic) == "beta")
    }
    #expect(route(staged, app, .alert, topic: "\(app).betas") == "own")
    #expect(route(staged, app, .voip, topic: "\(app).bank") == "own", "as long as the type's own")
    let together = try Credentials([
      key("both", apps: [app, other]), key("pass", apps: ["pass.a"], topics: ["pass.b"]),
    ])
    #expect(route(together, app, .alert, topic: other) == "both")
    #expect(route(together, app, .voip, topic: "\(other).voip") == "both")
    #expect(route(together, app, .alert, topic: "pass.b") == foreign("pass.b"))
    #expect(route(together, "pass.a", .alert, topic: "pass.b") == "pass")
    // A channel is of an app, whatever topic the job has.
    #expect(
      route(together, app, .liveactivity, topic: "\(other).push-type.liveactivity", isBroadcast: true)
        == foreign("\(other).push-type.liveactivity"))
  }

  @Test func topicsAreForKeysAlone() throws {
    try certificate("app", topics: ["com.example.app"])
    var wrong = archive("app", apps: ["com.example.app"])
    wrong.topics = ["com.example.app"]
    let error = #expect(throws: CredentialError.self) { try Credentials([wrong]) }
    #expect(error?.description.contains("contains its topics") == true)
    let none = #expect(throws: CredentialError.self) { try Credentials([key("k", apps: ["a"], topics: [])]) }
    #expect(none?.description.contains("may not send any topic") == true)
  }

  @Test func archivesOfOldKeychainsAreOpened() throws {
    try certificate("old", topics: ["com.example.app"])
    try files.write("correct horse", to: "phrase")
    // RC2 and SHA-1, as keychains export; OpenSSL 3 has them in its legacy provider alone.
    let made = try ChildProcess.run([
      "/usr/bin/openssl", "pkcs12", "-export", "-legacy", "-in", files.path("old.pem"), "-inkey", files.path("old.key"),
      "-out", files.path("legacy.p12"), "-passout", "file:\(files.path("phrase"))",
    ])
    #expect(made.status == 0, "\(made.errors)")
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: files.path("legacy.p12"))
    let credentials = try Credentials([archive("legacy", apps: ["com.example.app"])])
    #expect(route(credentials, "com.example.app", .alert) == "legacy")
  }

  // MARK: herald check

  private func findings(_ lines: String) throws -> [Checker.Finding] {
    let file = try files.write("credentials:\n\(lines)", to: "herald.yaml")
    var findings: [Checker.Finding] = []
    Checker(try ConfigurationLoader.load(file: file)).run(offline: true) { findings.append($0) }
    return findings.filter { $0.subject.hasPrefix("credential") }
  }

  @Test func checkTellsWhatEachCanSend() throws {
    try certificate("app", topics: ["com.example.app", "com.example.app.voip"], userID: "com.example.app")
    try files.write("correct horse\n", to: "phrase")
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: files.path("AuthKey.p8"))
    let found = try findings(
      """
        - {name: main, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: AuthKey.p8, apps: [com.example.app]}
        - {name: calls, team_id: DEF123GHIJ, key_id: CALLS00001, key_file: AuthKey.p8, environments: [sandbox],
           apps: [com.example.app], topics: [com.example.app.voip]}
        - {name: cert, p12_file: app.p12, passphrase_file: phrase, environments: [production], apps: [com.example.app]}
      """)
    #expect(found.map(\.isGood) == [true, true, true])
    let others = "background, location"
    #expect(
      found[0].text == """
        signing key ABC123DEFG (EC 256) of team DEF123GHIJ, for all topics; in production, sandbox; com.example.app: \
        alert, \(others), voip, complication, fileprovider, liveactivity, pushtotalk, widgets, controls, accessory, \
        not mdm; \
        credential "main": \(files.path("AuthKey.p8")) is readable by others; chmod 600 it
        """)
    #expect(
      found[1].text.contains("topic-specific: com.example.app.voip; in sandbox; com.example.app: voip, not alert,"))
    #expect(
      found[2].text.contains(
        "certificate UID=com.example.app,CN=Apple Push Services: app (EC 256), valid until ")
        || found[2].text.contains("certificate CN=Apple Push Services: app,UID=com.example.app (EC 256), valid until "),
      "\(found[2].text)")
    #expect(
      found[2].text.contains("29 days left: renew it, topics com.example.app, com.example.app.voip; in production"))
    #expect(found[2].text.contains("com.example.app: alert, background, voip, mdm, not location,"), "\(found[2].text)")
  }

  @Test func checkRefusesCertificatesOutOfTheirTime() throws {
    try certificate("old", userID: "a", notAfter: 1_700_000_000)
    try certificate("young", userID: "a", notBefore: 4_000_000_000, notAfter: 4_100_000_000)
    let found = try findings(
      """
        - {name: old, certificate_file: old.pem, private_key_file: old.key, apps: [a]}
        - {name: young, certificate_file: young.pem, private_key_file: young.key, apps: [a]}
      """)
    #expect(found.map(\.isGood) == [false, false] && found.allSatisfy { $0.concernsConfiguration })
    #expect(found[0].text.contains("expired on 2023-11-14T22:13:20Z: get a new one"), "\(found[0].text)")
    #expect(found[1].text.contains("not valid before 2096-10-02"), "\(found[1].text)")
  }
}
