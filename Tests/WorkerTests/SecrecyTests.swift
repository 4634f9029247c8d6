import Foundation
import Logging
import PushCore
import PushCredentials
import PushIO
import PushOperations
import PushSettings
import PushWorker
import TestSupport
import Testing

/// The configuration is full of marked secrets; none appears in any error, finding, log line, description, dump or metric.
@Suite(.timeLimit(.minutes(2))) struct SecrecyTests {
  private static let marks = ["S3CRET-rabbit", "S3CRET-redis", "S3CRET-proxy", "S3CRET-phrase", "S3CRET-wrong"]

  private func material(_ files: TemporaryFolder) throws -> [String] {
    let authority = try CertificateFactory(commonName: "Herald test authority")
    var request = CertificateFactory.Request(commonName: "Apple Push Services: app")
    request.userID = "com.example.app"
    let issued = try authority.issue(request)
    try issued.write(certificateFile: files.path("c.pem"), keyFile: files.path("k.pem"))
    try issued.writePKCS12(file: files.path("c.p12"), passphrase: "S3CRET-phrase")
    try files.write("S3CRET-phrase\n", to: "phrase")
    try files.write("S3CRET-wrong\n", to: "wrong")
    let encrypted = try ChildProcess.run([
      "/usr/bin/openssl", "pkcs8", "-topk8", "-in", files.path("k.pem"), "-out", files.path("e.pem"), "-passout",
      "file:\(files.path("phrase"))",
    ])
    #expect(encrypted.status == 0, "\(encrypted.errors)")
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let pem = String(decoding: signer.privateKeyPEM(), as: UTF8.self)
    try files.write(pem, to: "AuthKey.p8")
    // A key whose last line is cut off: it cannot be read, and must not be shown.
    try files.write(String(pem.prefix(pem.count / 2)), to: "Cut.p8")
    return pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.map(String.init)
  }

  private func configuration(_ credentials: String, _ port: UInt16) -> String {
    """
    rabbitmq: {url: "amqp://guest:S3CRET-rabbit@127.0.0.1:\(port)/"}
    redis: {url: "redis://user:S3CRET-redis@127.0.0.1:\(port)/0"}
    apns: {production: "https://127.0.0.1:\(port)", sandbox: "https://127.0.0.1:\(port)",
      broadcast_production: "https://127.0.0.1:\(port)", broadcast_sandbox: "https://127.0.0.1:\(port)",
      manage_production: "https://127.0.0.1:\(port)", manage_sandbox: "https://127.0.0.1:\(port)",
      proxy: "http://me:S3CRET-proxy@127.0.0.1:\(port)"}
    admin: {port: 0}
    credentials:
    \(credentials)
    """
  }

  @Test func aUserNameAloneMayBeAPassword() {
    for scheme in ["redis", "rediss-cluster", "amqp", "http"] {
      #expect(ServiceAddress.redacted("\(scheme)://hunter2@h:1/0") == "\(scheme)://***@h:1/0")
    }
    #expect(ServiceAddress.redacted("amqp://u:hunter2@h1,amqp://hunter2@h2/v") == "amqp://u:***@h1,amqp://***@h2/v")
    #expect(ServiceAddress.redacted("redis://h:1/0") == "redis://h:1/0")
  }

  @Test func aSentinelsPasswordIsHidden() {
    let url = "rediss-sentinel://me:one@a:1,b:2/main?sentinel_user=x&sentinel_password=t@w:o&sentinel_tls=no"
    let shown = "rediss-sentinel://me:***@a:1,b:2/main?sentinel_user=x&sentinel_password=***&sentinel_tls=no"
    #expect(ServiceAddress.redacted(url) == shown)
    #expect(
      ServiceAddress.redacted("redis-sentinel://a/m?sentinel_password=two")
        == "redis-sentinel://a/m?sentinel_password=***")
  }

  private static let good = """
      - {name: main, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: AuthKey.p8, apps: [com.example.app]}
      - {name: pem, certificate_file: c.pem, private_key_file: e.pem, passphrase_file: phrase, apps: [com.example.pem]}
      - {name: p12, p12_file: c.p12, passphrase_file: phrase, apps: [com.example.app]}
    """

  private static let bad = [
    "  - {name: a, certificate_file: c.pem, private_key_file: e.pem, passphrase_file: wrong, apps: [a]}",
    "  - {name: a, certificate_file: c.pem, private_key_file: e.pem, apps: [a]}",
    "  - {name: a, p12_file: c.p12, passphrase_file: wrong, apps: [a]}",
    "  - {name: a, p12_file: c.p12, apps: [a]}",
    "  - {name: a, p12_file: c.pem, passphrase_file: phrase, apps: [a]}",
    "  - {name: a, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: Cut.p8, apps: [a]}",
    "  - {name: a, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: phrase, apps: [a]}",
    "  - {name: a, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: c.p12, apps: [a]}",
  ]

  /// All descriptions of a value.
  private func says(_ value: Any) -> String {
    var text = "\(value) \(String(reflecting: value))\n"
    dump(value, to: &text)
    return text
  }

  @Test func nothingShowsASecret() async throws {
    let files = try TemporaryFolder("secrecy")
    let keyLines = try material(files)
    let port = try LoopbackPort.free()
    var texts: [String] = []
    let file = try files.write(configuration(Self.good, port), to: "herald.yaml")
    let loaded = try ConfigurationLoader.load(file: file)
    texts += [says(loaded), says(loaded.rabbitmq), says(loaded.redis), says(loaded.apns), says(loaded.credentials)]
    texts += [says(loaded.apns.proxy as Any), says(loaded.effective)]
    texts += [says(try AMQPAddress(loaded.rabbitmq.urls[0])), says(try RedisConfiguration(url: loaded.redis.url))]
    let credentials = try Credentials(loaded.credentials)
    for credential in credentials.all { texts.append(says(credential as Any)) }
    // `herald check`, whose services do not answer.
    Checker(loaded).run(offline: false) { texts.append(says($0)) }
    // A worker without any service: its log and metrics.
    let lines = LogLines()
    let worker = try Worker(loaded, logger: Logger(label: "test") { _ in lines })
    try worker.start()
    #expect(await lines.wait(for: "127.0.0.1:\(port)"), "\(lines.text)")
    texts.append(await worker.metricsText())
    await worker.drain()
    texts += [says(worker), lines.text]
    // Every kind of mistake.
    for (number, entry) in Self.bad.enumerated() {
      let wrong = try files.write(configuration(entry, port), to: "bad-\(number).yaml")
      let configuration = try ConfigurationLoader.load(file: wrong)
      let error = #expect(throws: CredentialError.self, "\(entry)") { try Credentials(configuration.credentials) }
      texts.append(says(error as Any))
      Checker(configuration).run(offline: true) { texts.append(says($0)) }
    }
    // A configuration whose own values are wrong.
    for line in [
      "rabbitmq: {url: \"amqp://guest:S3CRET-rabbit@:x/\"}", "redis: {url: \"redis://a:S3CRET-redis@b:x/0\"}",
      "apns: {proxy: \"http://me:S3CRET-proxy@h:x\"}",
    ] {
      let wrong = try files.write(line, to: "wrong.yaml")
      let error = #expect(throws: ConfigurationError.self, "\(line)") { try ConfigurationLoader.load(file: wrong) }
      texts.append(says(error as Any))
    }
    let all = texts.joined(separator: "\n")
    #expect(all.contains("***"), "passwords are shown as three stars")
    for mark in Self.marks + keyLines { #expect(!all.contains(mark), "\(mark) is shown") }
  }

  /// A scheme, the `@` or the host was forgotten: what may be the password is not shown, whatever the option.
  @Test(arguments: [
    "redis:/:S3CRET-x@host", ":S3CRET-x@host", "svc:S3CRET-x@host:5672", "svc:S3CRET-x", "amqp://svc:S3CRET-x",
    "redis://:S3CRET-x",
    "redis://:S3CRET-x/0", "http://svc:S3CRET-x:3128", "https://svc:S3CRET-x@host", "amqp//svc:S3CRET-x?heartbeat=1",
  ])
  func aURLThatIsNoneShowsNoPassword(url: String) throws {
    let files = try TemporaryFolder("no-url")
    for line in [
      "rabbitmq: {url: \"\(url)\"}", "redis: {url: \"\(url)\"}", "apns: {proxy: \"\(url)\"}",
      "apns: {production: \"\(url)\"}", "registry: {url: \"\(url)\"}", "rabbitmq: {urls: [\"\(url)\"]}",
    ] {
      let file = try files.write(line, to: "herald.yaml")
      let text: String
      do {
        text = says(try ConfigurationLoader.load(file: file))
      } catch {
        text = says(error)
      }
      #expect(!text.contains("S3CRET-x"), "\(line): \(text)")
    }
    for text in [
      "u:hunter2://x@h:5672", "redis:/:hunter2://x@h", "u:hunter2://x", "redis:/:hunter2://x", "h?hunter2://x@h",
      "hunter2://x@h", "hunter2", "redis@u:hunter2", "redis://h#hunter2", "redis://u:p@h1,redis://:hunter2",
      "redis-cluster://u:x@h1:1,u2:hunter2", "localhost:6379?password=hunter2", "unix:/p?password=hunter2",
    ] {
      let shown = ServiceAddress.hidden(text, isURL: true)
      #expect(!shown.contains("hunter2") && shown.contains("\(text.count) characters"), "\(shown)")
    }
    #expect(ServiceAddress.hidden("Redis-Cluster://u:x@h1", isURL: true) == "redis-cluster://… (22 characters)")
    #expect(ServiceAddress.hidden("my-amqp://h", isURL: true) == "a text of 11 characters")
    // Where no URL belongs, other mistakes are shown.
    for text in ["a b", "*/alert=5:x", "localhost:80", "99999999999999999999"] {
      #expect(ServiceAddress.hidden(text) == text)
    }
    for text in ["redis://user:hunter2", "u:hunter2", "u@hunter2", "//hunter2"] {
      #expect(!ServiceAddress.hidden(text).contains("hunter2"))
    }
  }

  /// Where its path belongs, a file's content: of what is not there, no message shows the name.
  @Test func aSecretInPlaceOfItsFile_isNotShown() throws {
    let files = try TemporaryFolder("no-file")
    for secret in [
      "mySecretToken12345678", "hunter2", "0123456789abcdef", "S3CRET/with+slash=", "/S3CRETwithslash/in/front",
      "x.S3CRET", String(repeating: "S3CRET/", count: 7),
    ] {
      var texts: [String] = []
      let lines = [
        "admin: {token_file: '\(secret)'}", "redis: {token_key_file: '\(secret)'}", "rabbitmq: {ca_file: '\(secret)'}",
        "apns: {ca_file: '\(secret)'}", "gateway: {keys_file: '\(secret)'}",
        "credentials: [{name: a, p12_file: c.p12, passphrase_file: '\(secret)', apps: [a]}]",
        "credentials: [{name: a, p12_file: '\(secret)', apps: [a]}]",
        "credentials: [{name: a, certificate_file: '\(secret)', private_key_file: '\(secret)', apps: [a]}]",
        "credentials: [{name: a, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: '\(secret)', apps: [a]}]",
        "gateway: {certificate_file: '\(secret)', private_key_file: '\(secret)'}",
      ]
      for line in lines {
        let file = try files.write(line, to: "herald.yaml")
        do {
          let loaded = try ConfigurationLoader.load(file: file)
          Checker(loaded).run(offline: true) { texts.append(says($0)) }
          do { _ = try Worker(loaded, logger: Logger(label: "test")) } catch { texts.append(says(error)) }
        } catch {
          texts.append(says(error))
        }
      }
      for option in ConfigurationOption.all {
        do {
          texts.append(
            says(try ConfigurationLoader.load(file: nil, environment: [option.environmentName + "_FILE": secret])))
        } catch {
          texts.append(says(error))
        }
      }
      #expect(texts.count > 50)
      for text in texts { #expect(!text.contains(secret), "\(text)") }
    }
    let path = files.path("none")
    #expect(FileName.shown(path) == "\(path.dropLast(4))… (a name of 4 characters)")
    #expect(FileName.shown(try files.write("x", to: "there")) == files.path("there"))
    #expect(FileName.shown("/none/AuthKey_ABC.p8") == "/none/AuthKey_ABC.p8")
  }

  /// A scheme was forgotten or written wrong, at random: in every option, in its variable, in the file that its variable names, in its flag.
  @Test func aWrongScheme_showsNoPassword_whateverTheOption() throws {
    var random = SeededRandom(seed: 36)
    let files = try TemporaryFolder("wrong-scheme")
    let starts = [
      "", "", "redis:/", "amqp:/", "redis:", "//", "amqp//", "http:/", "https;//", "rediss:///", "amqp:://",
    ]
    let hosts = ["host", "rabbit:5672", "127.0.0.1:6379/0", "[::1]:1", "proxy:3128/?heartbeat=1", "a:1,b:2/main"]
    var refusals = 0
    for option in ConfigurationOption.all {
      for round in 0..<24 {
        let user = ["", "svc", "a.b-c", "us%40er"].randomElement(using: &random) ?? ""
        let noise = (0..<6).map { _ in ":/?#&%=+@!abc019".randomElement(using: &random) ?? "a" }
        let password = String(noise.prefix(3)) + "S3CRET-x" + String(noise.suffix(3))
        let start = starts.randomElement(using: &random) ?? ""
        let host = hosts.randomElement(using: &random) ?? ""
        var forms = [
          "\(start)\(user):\(password)@\(host)", "redis://u:p@h1,redis://:\(password)",
          "redis-cluster://u:x@h1:1,u2:\(password)", "redis@\(user):\(password)", "redis://h#\(password)",
          "\(start)//\(user):\(password)", "amqp://\(user)\(password)",
        ]
        // Where any text may stand, only what looks like a URL is taken for a secret.
        if option.isSecret { forms += [password, "\(user):\(password)", "S3CRET-x"] }
        let url = round < 6 ? forms[0] : forms.randomElement(using: &random) ?? ""
        let (section, name) = (
          option.path.split(separator: ".").dropLast(), option.path.split(separator: ".").last ?? ""
        )
        var yaml = "\(name): '\(url)'"
        if round % 2 == 1 { yaml = "\(name): ['\(url)']" }
        for part in section.reversed() { yaml = "\(part): {\(yaml)}" }
        let file = try files.write(yaml, to: "herald.yaml")
        let value = try files.write(url + "\n", to: "value")
        let ways: [(String?, [String: String], [ConfigurationLoader.Override])] = [
          (file, [:], []), (nil, [option.environmentName: url], []),
          (nil, [option.environmentName + "_FILE": value], []),
          (nil, [option.environmentName + "_FILE": url], []),
          (nil, [option.environmentName + "_FIL": url], []),
          (nil, [:], [ConfigurationLoader.Override(flag: "--x", path: option.path, text: url)]),
        ]
        for (way, (file, environment, overrides)) in ways.enumerated() {
          do {
            let loaded = try ConfigurationLoader.load(file: file, environment: environment, overrides: overrides)
            // What takes any text, as a name or a path does, takes this one too.
            guard option.isSecret else { continue }
            let text = says(loaded) + says(loaded.effective)
            #expect(!text.contains("S3CRET"), "\(option.path) by way \(way): \(url)")
          } catch {
            refusals += 1
            let text = says(error)
            #expect(!text.contains("S3CRET"), "\(option.path) by way \(way), \(url): \(error)")
          }
        }
      }
    }
    #expect(refusals > 1_000)
  }

  @Test func passphrasesPrintAsStars() {
    let secret: Secret = "S3CRET"
    #expect(says(secret).contains("***") && !says(secret).contains("S3CRET"))
    #expect(secret.revealed == "S3CRET")
  }
}

/// A log handler that keeps its lines.
private final class LogLines: LogHandler, @unchecked Sendable {
  private let lock = NSLock()
  private var lines: [String] = []
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace

  var text: String { lock.withLock { lines.joined(separator: "\n") } }

  /// Waits until a line holds a text.
  func wait(for part: String) async -> Bool {
    for _ in 0..<500 {
      if text.contains(part) { return true }
      try? await Task.sleep(for: .milliseconds(10))
    }
    return false
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    lock.withLock { lines.append("\(event.level) \(event.message) \(event.metadata ?? [:])") }
  }
}
