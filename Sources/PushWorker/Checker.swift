import Foundation
import PushCore
import PushIO

/// Tries what a worker would use, for `herald check`: keys, certificates, RabbitMQ, Redis and every APNs host.
package struct Checker {
  /// What was tried, and what came of it.
  package struct Finding: Encodable, Sendable {
    package var subject: String
    package var isGood: Bool
    package var text: String
    /// It is a matter of the configuration, not of a service that is down.
    package var concernsConfiguration: Bool
  }

  private static let connectMilliseconds: Int64 = 5000

  private let configuration: Configuration

  package init(_ configuration: Configuration) {
    self.configuration = configuration
  }

  /// Looks at everything; `offline` leaves the network out. `tell` gets each finding as it is made.
  package func run(offline: Bool, _ tell: (Finding) -> Void) {
    tell(good("configuration", "\(configuration.file ?? "no file, defaults and environment") is valid"))
    for configured in configuration.credentials { tell(credential(configured)) }
    if configuration.credentials.isEmpty {
      tell(bad("credentials", "none are configured: every job would be invalid", ofConfiguration: true))
    }
    if offline { return }
    tell(rabbitmq())
    tell(redis())
    for host in hosts() { tell(apns(host)) }
  }

  // MARK: credentials

  private func credential(_ configured: CredentialConfiguration) -> Finding {
    let subject = "credential \(configured.name)"
    let serves =
      "for \(configured.apps.joined(separator: ", ")) in \(configured.environments.map { "\($0)" }.joined(separator: ", "))"
    do {
      let loaded = try Credentials([configured], caFile: configuration.apns.caFile)
      guard let credential = loaded.all.compactMap(\.self).first else { return bad(subject, "was not loaded") }
      let warnings = credential.warnings.map { "; \($0)" }.joined()
      switch configured.kind {
      case .token(let teamID, let keyID, _):
        return good(subject, "provider token of team \(teamID), key \(keyID), \(serves)\(warnings)")
      case .certificate, .pkcs12:
        guard let facts = credential.tls.certificateFacts else { return bad(subject, "has no certificate") }
        let end = Date(timeIntervalSince1970: Double(facts.notAfterUnixSeconds))
        let text = "certificate \(facts.subject), valid until \(end.formatted(.iso8601)), \(serves)\(warnings)"
        return end < .now ? bad(subject, text + ": expired", ofConfiguration: true) : good(subject, text)
      }
    } catch {
      return bad(subject, "\(error)", ofConfiguration: true)
    }
  }

  // MARK: services

  private func rabbitmq() -> Finding {
    let urls = configuration.rabbitmq.urls.map(ServiceAddress.redacted).joined(separator: ", ")
    do {
      let admin = try BrokerAccess(configuration).connect("check")
      defer { admin.close() }
      return good("rabbitmq", "\(admin.server) at \(admin.address)")
    } catch {
      return bad("rabbitmq", "\(urls): \(error)")
    }
  }

  private func redis() -> Finding {
    do {
      let loop = try EventLoop()
      let address = try RedisConfiguration(url: configuration.redis.url)
      let tls = address.usesTLS ? try TLSContext.client(alpn: []) : nil
      let connection = RedisConnection(loop: loop, configuration: address, tls: tls, scripts: [], seed: 1)
      connection.connect()
      let deadline = loop.now.monotonic.adding(milliseconds: Checker.connectMilliseconds)
      while loop.now.monotonic < deadline {
        loop.poll(maximumWaitMilliseconds: 50)
        while let event = connection.nextEvent() {
          switch event {
          case .ready: return good("redis", address.serverDescription)
          case .disconnected(let error): return bad("redis", "\(error)")
          case .reply, .lost: break
          }
        }
        loop.flush()
      }
      return bad("redis", "\(address.serverDescription) did not answer within \(Checker.connectMilliseconds) ms")
    } catch {
      return bad("redis", "\(error)")
    }
  }

  /// The hosts that the credentials' environments use, by what they are for.
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
      let tls = try TLSContext.client(alpn: ["h2"], caFile: configuration.apns.caFile)
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
