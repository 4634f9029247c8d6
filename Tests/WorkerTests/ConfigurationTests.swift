import Foundation
import Logging
import PushCore
import PushSettings
import TestSupport
import Testing

/// How defaults, files, variables and flags become a configuration.
@Suite struct ConfigurationTests {
  @Test func defaultsAreTheContracts() throws {
    let configuration = try ConfigurationLoader.load(file: nil)
    #expect(configuration.rabbitmq.urls == ["amqp://guest:guest@127.0.0.1:5672/"])
    #expect(configuration.rabbitmq.prefix == "push")
    #expect(configuration.rabbitmq.prefetch == 2000)
    #expect(configuration.rabbitmq.caFile == nil)
    #expect(configuration.redis.url == "redis://127.0.0.1:6379/0")
    #expect(configuration.redis.prefix == "push:")
    #expect(configuration.redis.timeoutMilliseconds == 200)
    #expect(configuration.apns.production.host == "api.push.apple.com")
    #expect(configuration.apns.production.port == 443)
    #expect(configuration.apns.sandbox.host == "api.sandbox.push.apple.com")
    #expect(configuration.apns.broadcastProduction.host == "api-broadcast.push.apple.com")
    #expect(configuration.apns.broadcastSandbox.host == "api-broadcast.sandbox.push.apple.com")
    #expect(configuration.apns.manageProduction.host == "api-manage-broadcast.push.apple.com")
    #expect(configuration.apns.manageProduction.port == 2196)
    #expect(configuration.apns.manageSandbox.host == "api-manage-broadcast.sandbox.push.apple.com")
    #expect(configuration.apns.manageSandbox.port == 2195)
    #expect(configuration.apns.caFile == nil)
    #expect(configuration.apns.proxy == nil)
    #expect(configuration.apns.connectionsMaximum == 8)
    #expect(configuration.apns.requestTimeoutMilliseconds == 10_000)
    #expect(configuration.credentials.isEmpty)
    #expect(configuration.limits.rates == RateLimits(RateLimit(burst: 10, perSecond: 1)))
    #expect(configuration.limits.onLimit == .delay)
    #expect(configuration.retry == RetryPolicy())
    #expect(configuration.results.isLogged)
    #expect(configuration.results.logMaximumAge == "7D")
    #expect(configuration.results.logMaximumBytes == 10_737_418_240)
    #expect(configuration.activities.idAttribute == nil)
    #expect(configuration.activities.defaultStaleAfterSeconds == nil)
    #expect(configuration.lanes == 0)
    #expect(configuration.drainTimeoutMilliseconds == 25_000)
    #expect(configuration.admin.host == "127.0.0.1")
    #expect(configuration.admin.port == 8080)
    #expect(configuration.gateway.host == "127.0.0.1")
    #expect(configuration.gateway.port == 8090)
    #expect(configuration.gateway.tls == nil)
    #expect(configuration.gateway.keysFile == nil)
    #expect(configuration.gateway.connectionsMaximum == 10_000)
    #expect(!configuration.gateway.allowsEveryone)
    #expect(configuration.gateway.applications.isEmpty)
    #expect(configuration.log.level == .info)
    #expect(configuration.log.format == .auto)
    #expect(configuration.file == nil)
  }

  @Test func laterLayersWin() throws {
    let file = try File("redis: {prefix: \"file:\"}\nlanes: 2\nadmin: {port: 1}\nlog: {level: debug}")
    let environment = ["HERALD_LANES": "3", "HERALD_ADMIN_PORT": "2", "HERALD_LOG_LEVEL": "", "PATH": "/bin"]
    let flags = [ConfigurationLoader.Override(flag: "--lanes", path: "lanes", text: "4")]
    let configuration = try ConfigurationLoader.load(file: file.path, environment: environment, overrides: flags)
    #expect(configuration.redis.prefix == "file:")
    #expect(configuration.admin.port == 2)
    #expect(configuration.lanes == 4)
    // An empty variable counts as not set.
    #expect(configuration.log.level == .debug)
  }

  @Test func everyScalarHasAVariable() throws {
    for option in ConfigurationOption.all {
      let text: String
      switch option.kind {
      case .text(.brokerURL): text = "amqp://a:b@c/d"
      case .text(.redisURL): text = "rediss://a/1"
      case .text(.serviceURL): text = "https://a:1"
      case .text(.proxyURL), .text(.managementURL): text = "http://a:1"
      case .text(.file), .text(.host), .text(.brokerPrefix), .text(.keyPrefix): text = "other"
      case .text(.age): text = "30m"
      case .text(.attributePath): text = "herald.activityId"
      case .text(.rateLimit), .texts(.rateLimit, _): text = "com.example.app/voip=20:2.5, */*=0"
      case .texts: text = "amqp://a, amqp://b"
      case .integer(let bounds): text = "\(bounds.upperBound - 1)"
      case .integers: text = "2, 4"
      case .number: text = "2.5"
      case .flag: text = option.defaultValue == .flag(true) ? "false" : "true"
      case .choice(let choices): text = choices.last ?? ""
      }
      var environment = [option.environmentName: text]
      // Satisfies the rules between options.
      if option.path == "apns.request_timeout_ms" { environment["HERALD_DRAIN_TIMEOUT_S"] = "3600" }
      if option.path == "redis.timeout_ms" { environment["HERALD_APNS_REQUEST_TIMEOUT_MS"] = "20000" }
      if option.path.hasPrefix("gateway.") {
        for name in ["CERTIFICATE", "PRIVATE_KEY"] { environment["HERALD_GATEWAY_\(name)_FILE"] = "other" }
      }
      let configuration = try ConfigurationLoader.load(file: nil, environment: environment)
      let effective = configuration.effective.first { $0.path == option.path }
      #expect(effective?.value != option.defaultValue.yaml, "\(option.path)")
    }
  }

  @Test func variablesReadFiles() throws {
    let secret = try File("amqp://user:secret@broker:5671/\n")
    let configuration = try ConfigurationLoader.load(
      file: nil, environment: ["HERALD_RABBITMQ_URL_FILE": secret.path, "HERALD_RABBITMQ_CA_FILE": "/etc/ca.pem"])
    #expect(configuration.rabbitmq.urls == ["amqp://user:secret@broker:5671/"])
    #expect(configuration.rabbitmq.caFile == "/etc/ca.pem")
  }

  @Test func theURLSaidLastIsTried() throws {
    let file = try File("rabbitmq: {url: \"amqp://a\", urls: [\"amqp://b\", \"amqp://c\"]}")
    #expect(try ConfigurationLoader.load(file: file.path).rabbitmq.urls == ["amqp://b", "amqp://c"])
    let one = ["HERALD_RABBITMQ_URL": "amqp://d"]
    #expect(try ConfigurationLoader.load(file: file.path, environment: one).rabbitmq.urls == ["amqp://d"])
    let two = ["HERALD_RABBITMQ_URL": "amqp://d", "HERALD_RABBITMQ_URLS": "amqp://e,amqp://f"]
    #expect(try ConfigurationLoader.load(file: file.path, environment: two).rabbitmq.urls == ["amqp://e", "amqp://f"])
  }

  @Test func credentialsOfAllKinds() throws {
    let folder = try TemporaryFolder("configuration")
    try folder.write("pass phrase\n", to: "phrase")
    let file = try folder.write(
      """
      credentials:
        - {name: main, team_id: DEF123GHIJ, key_id: ABC123DEFG, key_file: AuthKey.p8, environments: [sandbox],
           apps: [com.example.app, com.example.two]}
        - {name: wallet, certificate_file: /c.pem, private_key_file: k.pem, passphrase_file: null,
           apps: [pass.com.example]}
        - {name: desk, p12_file: d.p12, passphrase_file: phrase, apps: [com.example.desk]}
      """, to: "herald.yaml")
    let credentials = try ConfigurationLoader.load(file: file).credentials
    #expect(
      credentials == [
        CredentialConfiguration(
          name: "main", kind: .token(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", keyFile: folder.path("AuthKey.p8")),
          environments: [.sandbox], apps: ["com.example.app", "com.example.two"]),
        CredentialConfiguration(
          name: "wallet",
          kind: .certificate(certificateFile: "/c.pem", privateKeyFile: folder.path("k.pem"), passphrase: nil),
          environments: [.production, .sandbox], apps: ["pass.com.example"]),
        CredentialConfiguration(
          name: "desk", kind: .pkcs12(file: folder.path("d.p12"), passphrase: "pass phrase"),
          environments: [.production, .sandbox], apps: ["com.example.desk"]),
      ])
  }

  @Test func applicationsOfTheGatewayAreMapped() throws {
    let file = try File(
      """
      gateway:
        allow_everyone: true
        applications:
          AAAAA-BBBBB: {app: com.example.app}
          CCCCC-DDDDD:
            app: com.example.other
            environment: sandbox
            id_attribute: herald.id
            default_alert: {title: "Your order", body: "Follow it"}
      """)
    let gateway = try ConfigurationLoader.load(file: file.path).gateway
    #expect(gateway.allowsEveryone)
    #expect(gateway.applications.keys.sorted() == ["AAAAA-BBBBB", "CCCCC-DDDDD"])
    let (one, other) = (
      try #require(gateway.applications["AAAAA-BBBBB"]), try #require(gateway.applications["CCCCC-DDDDD"])
    )
    #expect(one.scope.description == "com.example.app in production")
    #expect(one.idAttribute?.description == "pushwoosh.activityId" && one.defaultAlert == nil)
    #expect(other.scope.description == "com.example.other in sandbox")
    #expect(other.idAttribute?.description == "herald.id")
    #expect(other.defaultAlert == LiveActivitiesApplication.Alert(title: "Your order", body: "Follow it"))
  }

  @Test func emptyFilesAndSectionsMeanTheDefaults() throws {
    let defaults = try ConfigurationLoader.load(file: nil)
    for text in ["", "# nothing\n", "---\n", "redis:\nadmin: ~\ncredentials:\n"] {
      let file = try File(text)
      let configuration = try ConfigurationLoader.load(file: file.path)
      #expect(configuration.pathsNeedingRestart(comparedTo: defaults).isEmpty)
      #expect(configuration.credentials.isEmpty)
    }
  }

  @Test func aBurstOfZeroIsNoLimit() throws {
    let configuration = try ConfigurationLoader.load(file: nil, environment: ["HERALD_LIMITS_PER_DEVICE_BURST": "0"])
    #expect(configuration.limits.rates.isEmpty)
  }

  @Test func reloadTellsWhatWantsARestart() throws {
    let old = try ConfigurationLoader.load(file: nil)
    let live = try ConfigurationLoader.load(
      file: nil,
      environment: [
        "HERALD_LIMITS_PER_DEVICE_BURST": "3", "HERALD_LIMITS_PER_DEVICE_PER_SECOND": "0.5",
        "HERALD_LIMITS_ON_LIMIT": "drop", "HERALD_LOG_LEVEL": "debug",
      ])
    #expect(live.pathsNeedingRestart(comparedTo: old).isEmpty)
    let other = try ConfigurationLoader.load(
      file: nil, environment: ["HERALD_LANES": "3", "HERALD_REDIS_URL": "redis://other"])
    #expect(other.pathsNeedingRestart(comparedTo: old) == ["redis.url", "lanes"])
  }

  @Test func passwordsAreNotShown() throws {
    let configuration = try ConfigurationLoader.load(
      file: nil,
      environment: [
        "HERALD_RABBITMQ_URL": "amqp://user:se%40cret@host/",
        "HERALD_RABBITMQ_URLS": "amqp://a:secret@b,amqps://c:sec@ret@d",
        "HERALD_REDIS_URL": "redis://:secret@host", "HERALD_APNS_PROXY": "http://user:secret@proxy:3128",
        "HERALD_RABBITMQ_MANAGEMENT_URL": "https://user:secret@management",
      ])
    let text = configuration.effective.map { "\($0.path)=\($0.value)" }.joined(separator: "\n")
    #expect(!text.contains("secret") && !text.contains("ret@"))
    #expect(text.contains("rabbitmq.urls=[]") == false)
    #expect(text.contains("redis://:***@host"))
    #expect(text.contains("http://user:***@proxy:3128"))
    #expect(text.contains("https://user:***@management"))
    #expect(configuration.rabbitmq.management?.service.port == 15_671)
  }

  @Test func proxiesHaveALogin() throws {
    let configuration = try ConfigurationLoader.load(
      file: nil, environment: ["HERALD_APNS_PROXY": "http://us%40er:p%3Aw@[::1]:3128/"])
    let proxy = try #require(configuration.apns.proxy)
    #expect(proxy.user == "us@er")
    #expect(proxy.password == "p:w")
    #expect(proxy.host == "::1")
    #expect(proxy.port == 3128)
  }
}

/// A file with this text, removed with its value.
struct File {
  private let folder: TemporaryFolder
  let path: String

  init(_ text: String) throws {
    folder = try TemporaryFolder("configuration")
    path = try folder.write(text, to: "herald.yaml")
  }
}
