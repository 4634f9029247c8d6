import Foundation
import PushSettings
import TestSupport
import Testing

/// The files beside `config/herald.yaml` must match Herald.
@Suite struct ConfigurationFilesTests {
  private let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")

  private func text(_ path: String) throws -> String {
    try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  private func workerMetrics() throws -> Set<String> {
    try [
      "MetricsText.swift", "ChannelMetrics.swift", "RegistrationMetrics.swift", "ExpansionMetrics.swift",
      "UndeliveredMetrics.swift",
    ].reduce(into: Set<String>()) { known, file in
      known.formUnion(try Self.names(in: text("Sources/PushWorker/Metrics/\(file)")))
    }
  }

  private func gatewayMetrics() throws -> Set<String> {
    try Self.names(in: text("Sources/PushFront/Gateway/GatewayMetrics.swift"))
  }

  @Test(arguments: ["config/prometheus/alerts.yml", "config/grafana/herald.json"])
  func metricsThatAreAskedForExist(path: String) throws {
    let known = try workerMetrics().union(gatewayMetrics())
    let asked = try Self.names(in: text(path))
    #expect(asked.count > 8)
    for name in asked {
      let plain = ["_bucket", "_sum", "_count"].reduce(name) { $0.hasSuffix($1) ? String($0.dropLast($1.count)) : $0 }
      #expect(known.contains(name) || known.contains(plain), "\(name)")
    }
  }

  @Test func everyMetricIsInTheManual() throws {
    let (worker, gateway) = try (workerMetrics(), gatewayMetrics())
    let reported = try Self.names(in: text("docs/operations.md"))
    #expect(worker.subtracting(reported).sorted() == [], "not in docs/operations.md")
    #expect(reported.subtracting(worker.union(gateway)).sorted() == [], "in docs/operations.md alone")
    let reportedOfGateway = try Self.names(in: text("docs/reference/gateway.md"))
    #expect(gateway.subtracting(reportedOfGateway).sorted() == [], "not in docs/reference/gateway.md")
    #expect(reportedOfGateway.subtracting(gateway).sorted() == [], "in docs/reference/gateway.md alone")
  }

  /// What an operator must learn without looking.
  @Test(arguments: [
    "herald_apns_paused", "herald_apns_pools_stuck", "herald_credential_revoked", "herald_lanes_standing_still",
    "herald_rabbitmq_blocked", "herald_publish_refused", "herald_redis_degraded", "herald_redis_silences_total",
    "herald_gateway_keys_read_timestamp_seconds", "herald_gateway_numbered_locally_total",
    "herald_certificate_not_after_timestamp_seconds", "herald_provider_token_issued_timestamp_seconds",
  ])
  func whatNeedsSomebodyHasAnAlert(metric: String) throws {
    let asked = try text("config/prometheus/alerts.yml").matches(of: /(?m)^ +expr:.*(?:\n {10,}.*)*/).filter {
      Self.names(in: String($0.output)).contains(metric)
    }
    #expect(!asked.isEmpty)
    // Lanes and workers count the same thing: a sum would be larger where there are more of them.
    if metric == "herald_redis_silences_total" { #expect(asked.allSatisfy { $0.output.contains("max(increase(") }) }
  }

  @Test func everyAlertIsInTheManual() throws {
    let alerts = try text("config/prometheus/alerts.yml").matches(of: /- alert: (\w+)/).map { String($0.output.1) }
    let explained = try Set(text("docs/operations.md").matches(of: /\*\*(Herald\w+)\*\*/).map { String($0.output.1) })
    #expect(alerts.count > 10)
    #expect(Set(alerts).subtracting(explained).sorted() == [], "not in docs/operations.md")
    #expect(explained.subtracting(alerts).sorted() == [], "in docs/operations.md alone")
  }

  @Test func theConfigurationOfTheComposeFileLoads() throws {
    let path = root.appending(path: "config/compose/herald.yaml").path(percentEncoded: false)
    let configuration = try ConfigurationLoader.load(file: path)
    #expect(configuration.apns.production.host == "apns-simulator")
    #expect(configuration.credentials.map(\.apps) == [["com.example.app"]])
  }

  @Test(arguments: [("config/kubernetes/herald.yaml", ["main"]), ("config/kubernetes/gateway.yaml", [])])
  func theConfigurationOfTheManifestLoads(file: String, credentials: [String]) throws {
    let lines = try text(file).split(separator: "\n", omittingEmptySubsequences: false)
    let block = lines.drop { $0 != "  herald.yaml: |" }.dropFirst().prefix { $0 != "---" }.map { $0.dropFirst(4) }
    let folder = try TemporaryFolder("manifest")
    let path = try folder.write(block.joined(separator: "\n"), to: "herald.yaml")
    let configuration = try ConfigurationLoader.load(file: path)
    #expect(configuration.credentials.map(\.name) == credentials)
    // Others than the pod itself must reach it.
    #expect([configuration.admin.host, configuration.gateway.host].contains("0.0.0.0"))
    // Whoever reaches the port must show a token, and the manifest's own is none that everybody knows.
    if credentials.isEmpty {
      #expect(configuration.admin.host == "127.0.0.1")
    } else {
      let token = try #require(configuration.admin.tokenFile)
      let line = try #require(lines.first { $0.hasPrefix("  admin-token: ") })
      #expect(token == "/etc/herald/urls/admin-token" && lines.contains { $0.contains("mountPath: /etc/herald/urls,") })
      let file = try folder.write(String(line.dropFirst("  admin-token: ".count)), to: "token")
      #expect(throws: AdminToken.Failure.self) { try AdminToken(file: file) }
    }
    // The pod's shutdown: preStop, then the drain, then SIGKILL.
    let grace = try #require(lines.first { $0.contains("terminationGracePeriodSeconds:") }?.split(separator: " ").last)
    let seconds = try #require(Int64(grace))
    #expect(seconds * 1000 > configuration.drainTimeoutMilliseconds + 5000)
  }

  /// `herald_…` as whole words.
  private static func names(in text: String) -> Set<String> {
    var names: Set<String> = []
    for word in text.split(whereSeparator: { !$0.isLowercase && $0 != "_" }) where word.hasPrefix("herald_") {
      names.insert(String(word))
    }
    return names
  }
}
