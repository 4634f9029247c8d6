import Foundation
import Testing

/// The rules of `config/prometheus/alerts.yml` name nothing but what workers and gateways emit.
@Suite struct AlertRulesTests {
  private struct Rule {
    let name: String
    let expression: String
    let annotations: String
  }

  private let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")

  private func text(_ path: String) throws -> String {
    try String(contentsOf: root.appending(path: path), encoding: .utf8)
  }

  /// What stands in the parentheses that open at the end of `head`.
  private static func parentheses(after head: String.Index, in text: String) -> String {
    var depth = 1
    let end = text[head...].firstIndex { character in
      depth += character == "(" ? 1 : character == ")" ? -1 : 0
      return depth == 0
    }
    return String(text[head..<(end ?? text.endIndex)])
  }

  /// The labels of each metric; of one that workers and gateways have, those of both.
  private func emitted() throws -> [String: Set<String>] {
    let folder = root.appending(path: "Sources/PushWorker/Metrics").path(percentEncoded: false)
    let files = try FileManager.default.contentsOfDirectory(atPath: folder).map { "Sources/PushWorker/Metrics/\($0)" }
    var labels: [String: Set<String>] = [:]
    for file in files + ["Sources/PushFront/Gateway/GatewayMetrics.swift"] {
      for family in try text(file).components(separatedBy: ".family(").dropFirst() {
        guard let match = family.firstMatch(of: /"(herald_\w+)"/) else { continue }
        let name = String(match.output.1)
        var own: Set<String> = family.contains(".histogram(") ? ["le"] : []
        for sample in family.matches(of: /\.sample\(/) {
          let arguments = Self.parentheses(after: sample.range.upperBound, in: family)
          own.formUnion(arguments.matches(of: /"([a-z_]+)":/).map { String($0.output.1) })
        }
        for ending in own.contains("le") ? ["_bucket", "_sum", "_count"] : [""] {
          labels[name + ending] = labels[name + ending]?.intersection(own) ?? own
        }
      }
    }
    return labels
  }

  private func rules() throws -> [Rule] {
    let lines = try text("config/prometheus/alerts.yml").split(separator: "\n").filter { !$0.contains(/^ *#/) }
    return lines.joined(separator: "\n").components(separatedBy: "- alert: ").dropFirst().map { rule in
      let parts = rule.components(separatedBy: "annotations:")
      let body = parts[0].firstMatch(of: /expr:(?: [|>]-?\n)?([\s\S]*?)\n +(?:for|labels):/)
      return Rule(
        name: String(rule.prefix { $0 != "\n" }), expression: body.map { String($0.output.1) } ?? "",
        annotations: parts.count == 2 ? parts[1] : "")
    }
  }

  private static let words: Set = [
    "absent", "and", "by", "histogram_quantile", "increase", "label_replace", "max", "max_over_time", "on", "or",
    "rate", "scalar",
    "sum", "time",
  ]

  @Test func rulesNameWhatIsEmitted() throws {
    let samples = try emitted()
    let alerts = try rules()
    #expect(samples.count > 60 && alerts.count > 20)
    #expect(samples["herald_publish_refused"] == ["destination", "app", "role"])
    #expect(samples["herald_job_age_seconds_bucket"] == ["le"])
    func labels(_ metrics: [String]) -> Set<String> {
      metrics.dropFirst().reduce(metrics.first.flatMap { samples[$0] } ?? []) { $0.intersection(samples[$1] ?? []) }
    }
    for rule in alerts {
      #expect(!rule.expression.isEmpty && !rule.annotations.isEmpty, "\(rule.name)")
      // Label names that label_replace makes are strings.
      let made = rule.expression.contains("label_replace(") ? rule.expression.matches(of: /"([a-z_]+)"/) : []
      var known = Set(made.map { String($0.output.1) })
      var rest = rule.expression.replacing(/"[^"]*"/, with: "")
      for selector in rest.matches(of: /(\w+)\{([^}]*)\}/) {
        let named = selector.output.2.matches(of: /(\w+) *(?:=~|!~|!=|=)/).map { String($0.output.1) }
        let missing = Set(named).subtracting(samples[String(selector.output.1)] ?? [])
        #expect(missing.isEmpty, "\(rule.name): \(selector.output.1) has no \(missing)")
      }
      rest = rest.replacing(/\{[^}]*\}|\[[^\]]*\]/, with: "")
      for group in rest.matches(of: /by \(([^)]*)\) \(/) {
        let body = Self.parentheses(after: group.range.upperBound, in: rest)
        let named = Set(group.output.1.matches(of: /\w+/).map { String($0.output) })
        let missing = named.subtracting(labels(body.matches(of: /herald_\w+/).map { String($0.output) }))
        #expect(missing.isEmpty, "\(rule.name): no \(missing) in \(body)")
        known.formUnion(named)
      }
      let metrics = rest.matches(of: /herald_\w+/).map { String($0.output) }
      #expect(!metrics.isEmpty, "\(rule.name)")
      for metric in metrics { #expect(samples[metric] != nil, "\(rule.name): \(metric)") }
      if !rest.contains(/\b(?:sum|max|absent)\b/) { known.formUnion(labels(metrics)) }
      let others = rest.replacing(/(?:by|on) \([^)]*\)|herald_\w+/, with: "").matches(of: /[a-z_]+/)
        .map { String($0.output) }
      #expect(Set(others).subtracting(Self.words).isEmpty, "\(rule.name): \(others)")
      let shown = Set(rule.annotations.matches(of: /\$labels\.(\w+)/).map { String($0.output.1) })
      #expect(shown.subtracting(known).isEmpty, "\(rule.name) shows \(shown.subtracting(known))")
    }
  }
}
