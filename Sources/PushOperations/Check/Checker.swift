import Foundation
import PushCore
import PushCredentials
import PushIO
import PushLane
package import PushSettings

/// Tests what a worker would use, for `herald check`: keys, certificates, RabbitMQ, Redis and every APNs host.
package struct Checker {
  /// What was tested, and the result.
  package struct Finding: Encodable, Sendable {
    package var subject: String
    package var isGood: Bool
    package var text: String
    /// The configuration is the cause, not a service that is down.
    package var concernsConfiguration: Bool
    /// Nothing fails of it yet.
    package var isWarning = false
  }

  private static let connectMilliseconds: Int64 = 5000

  private let configuration: Configuration

  package init(_ configuration: Configuration) {
    self.configuration = configuration
  }

  /// Checks everything, also what only the gateway uses; `offline` leaves out the network. `tell` gets each finding at once.
  package func run(offline: Bool, _ tell: (Finding) -> Void) {
    tell(good("configuration", "\(configuration.file ?? "no file, defaults and environment") is valid"))
    for configured in configuration.credentials { tell(credential(configured)) }
    if configuration.credentials.isEmpty {
      tell(bad("credentials", "none are configured: every job would be invalid", ofConfiguration: true))
    }
    if let file = configuration.admin.tokenFile {
      do throws(AdminToken.Failure) {
        _ = try AdminToken(file: file)
        tell(good("admin", "changes at the admin port want the token of \(file)"))
      } catch {
        tell(bad("admin", "\(error)", ofConfiguration: true))
      }
    }
    if let tls = configuration.gateway.tls { tell(certificate(tls)) }
    if let file = configuration.gateway.keysFile { tell(keys(APIKeyFile(file))) }
    if let file = configuration.redis.tokenKeyFile { tell(tokenKey(file)) }
    if offline { return }
    tell(rabbitmq())
    for finding in policies() { tell(finding) }
    let prefix = configuration.redis.prefix
    var optional: Set<RedisProbe.Use> = [.channels, .gateway]
    if configuration.registry.url == nil { optional.insert(.devices) }
    let probe = RedisProbe(required: [.sending], optional: optional, prefix: prefix)
    tell(redis("redis", url: configuration.redis.url, probe))
    if let url = configuration.registry.url {
      tell(redis("registry", url: url, RedisProbe(required: [.sending, .devices], optional: [], prefix: prefix)))
    }
    for host in hosts() { tell(apns(host)) }
  }

  // MARK: credentials

  private func credential(_ configured: CredentialConfiguration) -> Finding {
    let subject = "credential \(configured.name)"
    do {
      let loaded = try Credentials([configured], for: configuration.apns)
      guard let credential = loaded.all.compactMap(\.self).first else { return bad(subject, "was not loaded") }
      var text: String
      var isGood = true
      switch configured.kind {
      case .token(let teamID, let keyID, _):
        text = "signing key \(keyID) (EC 256) of team \(teamID)"
        text += configured.topics.map { ", topic-specific: \($0.joined(separator: ", "))" } ?? ", for all topics"
      case .certificate, .pkcs12:
        guard let facts = credential.tls.certificateFacts else { return bad(subject, "has no certificate") }
        text = "certificate \(facts.subject) (\(facts.keyText)), \(Checker.life(facts, now: .now, &isGood))"
        text += facts.topics.map { ", topics \($0.sorted().joined(separator: ", "))" } ?? ", names no topics"
      }
      text += "; in " + configured.environments.map { "\($0)" }.joined(separator: ", ")
      for app in configured.apps { text += "; " + Checker.jobs(of: app, credential) }
      text += credential.warnings.map { "; \($0)" }.joined()
      return isGood ? good(subject, text) : bad(subject, text, ofConfiguration: true)
    } catch {
      return bad(subject, "\(error)", ofConfiguration: true)
    }
  }

  private static let warningDays = 30

  /// The rest of a certificate's validity.
  private static func life(_ facts: CertificateFacts, now: Date, _ isGood: inout Bool) -> String {
    let begin = Date(timeIntervalSince1970: Double(facts.notBeforeUnixSeconds))
    let end = Date(timeIntervalSince1970: Double(facts.notAfterUnixSeconds))
    let days = Int((end.timeIntervalSince(now) / 86_400).rounded(.down))
    isGood = begin <= now && now < end
    if now >= end { return "expired on \(end.formatted(.iso8601)): get a new one" }
    if now < begin { return "not valid before \(begin.formatted(.iso8601))" }
    let hint = days < warningDays ? ", \(days) days left: renew it" : " (\(days) days)"
    return "valid until \(end.formatted(.iso8601))\(hint)"
  }

  /// The jobs that a credential can send for an app.
  private static func jobs(of app: String, _ credential: Credential) -> String {
    let types = credential.pushTypes(of: app)
    let others = PushType.named.filter { !types.contains($0) }
    if types.isEmpty { return "\(app): can send nothing" }
    if others.isEmpty { return "\(app): every push type" }
    return "\(app): " + types.map(\.name).joined(separator: ", ") + ", not "
      + others.map(\.name).joined(separator: ", ")
  }

  // MARK: other files

  private func certificate(_ files: GatewayTLSFiles) -> Finding {
    let subject = "gateway.certificate_file"
    do throws(TLSError) {
      let context = try TLSContext.server(
        certificateFile: files.certificate, keyFile: files.privateKey, alpn: [], clientCAFile: files.clientCA)
      guard let facts = context.certificateFacts else {
        return bad(subject, "\(files.certificate) has no certificate", ofConfiguration: true)
      }
      var isGood = true
      let text = "\(facts.subject) (\(facts.keyText)), \(Checker.life(facts, now: .now, &isGood))"
      return isGood ? good(subject, text) : bad(subject, text, ofConfiguration: true)
    } catch {
      return bad(subject, "\(error)", ofConfiguration: true)
    }
  }

  private func keys(_ file: APIKeyFile) -> Finding {
    let subject = "gateway.keys_file"
    do throws(APIKeyFile.Failure) {
      let count = try file.check()
      return good(subject, "\(file.path): \(count) \(count == 1 ? "key" : "keys")")
    } catch {
      return bad(subject, "\(error)", ofConfiguration: true)
    }
  }

  private func tokenKey(_ file: String) -> Finding {
    let subject = "redis.token_key_file"
    do throws(APNsError) {
      _ = try TokenSeal(file: file)
      return good(subject, "\(file) encrypts the provider tokens in Redis")
    } catch {
      return bad(subject, "\(error)", ofConfiguration: true)
    }
  }

  // MARK: services

  private func rabbitmq() -> Finding {
    let urls = configuration.rabbitmq.urls.map(ServiceAddress.redacted).joined(separator: ", ")
    do {
      let admin = try BrokerAdmin(configuration).connect("check")
      defer { admin.close() }
      try admin.checkForAlarm()
      return good("rabbitmq", "\(admin.server) at \(admin.address)")
    } catch {
      return bad("rabbitmq", "\(urls): \(error)")
    }
  }

  private func policies() -> [Finding] {
    let subject = "rabbitmq policies"
    guard let management = configuration.rabbitmq.management else {
      return [good(subject, "not looked at: rabbitmq.management_url is not set")]
    }
    func warning(_ text: String) -> Finding {
      Finding(subject: subject, isGood: true, text: text, concernsConfiguration: false, isWarning: true)
    }
    do {
      let settings = configuration.rabbitmq
      let tls =
        management.usesTLS
        ? try TLSContext.client(alpn: [], caFile: settings.caFile, trustsSystem: !settings.trustsOnlyCAFile) : nil
      let broker = try AMQPAddress(settings.urls[0])
      let topology = Topology(configuration)
      let warnings = try ManagementAPI(management, broker: broker, tls: tls).policies(topology).warnings()
      if !warnings.isEmpty { return warnings.map(warning) }
      return [good(subject, "none deletes or refuses what is in Herald's queues")]
    } catch {
      return [warning("not looked at: \(error)")]
    }
  }

  private func redis(_ name: String, url: String, _ probe: RedisProbe) -> Finding {
    do {
      var address = try RedisConfiguration(url: url)
      address.connectTimeoutMilliseconds = Checker.connectMilliseconds
      let session = try RedisSession(
        configuration: address, tls: try configuration.redis.tls(address))
      defer { session.close() }
      let result = try probe.run(session)
      if let fault = result.fault { return bad(name, "\(address.fullDescription): \(fault)") }
      return good(name, ([address.fullDescription] + result.remarks).joined(separator: "; "))
    } catch {
      return bad(name, "\(error)")
    }
  }

  /// The hosts of the credentials' environments, by purpose.
  private func hosts() -> [(name: String, address: ServiceAddress)] {
    let apns = configuration.apns
    let environments = Set(configuration.credentials.flatMap(\.environments))
    var hosts: [(name: String, address: ServiceAddress)] = []
    if environments.contains(.production) {
      hosts += [
        ("apns.production", apns.production), ("apns.broadcast_production", apns.broadcastProduction),
        ("apns.manage_production", apns.manageProduction),
      ]
    }
    if environments.contains(.sandbox) {
      hosts += [
        ("apns.sandbox", apns.sandbox), ("apns.broadcast_sandbox", apns.broadcastSandbox),
        ("apns.manage_sandbox", apns.manageSandbox),
      ]
    }
    return hosts
  }

  private func apns(_ host: (name: String, address: ServiceAddress)) -> Finding {
    let name = "\(host.address.host):\(host.address.port)"
    do {
      let loop = try EventLoop()
      let tls = try TLSContext.client(
        alpn: ["h2"], caFile: configuration.apns.caFile, trustsSystem: !configuration.apns.trustsOnlyCAFile)
      let connection = HTTP2ClientConnection.connect(
        loop: loop, to: Endpoint(host: host.address.host, port: host.address.port), tls: tls,
        options: ConnectOptions(through: configuration.apns.proxy))
      defer { connection.abort() }
      let deadline = loop.now.monotonic.adding(milliseconds: Checker.connectMilliseconds)
      while loop.now.monotonic < deadline {
        loop.poll(maximumWaitMilliseconds: 50)
        while let event = connection.nextEvent() {
          switch event {
          case .settingsChanged(let streams):
            return good(host.name, "\(name) speaks HTTP/2 over TLS, \(streams) streams (\(connection.peerDescription))")
          case .closed(let error):
            return bad(host.name, error.map { "\($0)" } ?? "\(name) closed the connection")
          case .opened, .goAway, .response, .notProcessed, .lost, .pingAcknowledged:
            break
          }
        }
        loop.flush()
      }
      return bad(host.name, "\(name) did not answer within \(Checker.connectMilliseconds) ms")
    } catch {
      return bad(host.name, "\(error)")
    }
  }

  private func good(_ subject: String, _ text: String) -> Finding {
    Finding(subject: subject, isGood: true, text: text, concernsConfiguration: false)
  }

  private func bad(_ subject: String, _ text: String, ofConfiguration: Bool = false) -> Finding {
    Finding(subject: subject, isGood: false, text: text, concernsConfiguration: ofConfiguration)
  }
}

extension Checker.Finding {
  /// Whether the running worker answered; `error`: why not.
  package static func worker(error: String?) -> Checker.Finding {
    Checker.Finding(
      subject: "worker", isGood: error == nil, text: error ?? "answers", concernsConfiguration: false)
  }
}
