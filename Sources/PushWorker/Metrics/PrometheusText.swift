package import PushCore

/// The Prometheus text format, one family after another.
package struct PrometheusText {
  package enum Kind: String {
    case counter, gauge, histogram
  }

  package typealias Labels = KeyValuePairs<String, String>

  package private(set) var text = ""
  private var name = ""

  package init() {}

  /// Begins a family; samples that follow are its own.
  package mutating func family(_ name: String, _ kind: Kind, _ help: String) {
    self.name = name
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
  }

  package mutating func sample(_ labels: Labels = [:], _ value: UInt64) {
    line("", labels, "\(value)")
  }

  package mutating func sample(_ labels: Labels = [:], _ value: Int) {
    line("", labels, "\(value)")
  }

  package mutating func sample(_ labels: Labels = [:], _ value: Double) {
    line("", labels, "\(value)")
  }

  package mutating func sample(_ labels: Labels = [:], _ value: Bool) {
    line("", labels, value ? "1" : "0")
  }

  /// One histogram: cumulative buckets in seconds, sum and count.
  package mutating func histogram(_ histogram: Histogram) {
    for (index, bound) in Histogram.boundsMicroseconds.enumerated() {
      line("_bucket", ["le": "\(Double(bound) / 1_000_000)"], "\(histogram.cumulativeCount(at: index))")
    }
    line("_bucket", ["le": "+Inf"], "\(histogram.count)")
    line("_sum", [:], "\(histogram.sumSeconds)")
    line("_count", [:], "\(histogram.count)")
  }

  private mutating func line(_ suffix: String, _ labels: Labels, _ value: String) {
    text += name + suffix
    if !labels.isEmpty {
      text += "{" + labels.map { "\($0.key)=\"\(Self.escaped($0.value))\"" }.joined(separator: ",") + "}"
    }
    text += " " + value + "\n"
  }

  private static func escaped(_ value: String) -> String {
    var escaped = ""
    for character in value {
      switch character {
      case "\\": escaped += "\\\\"
      case "\"": escaped += "\\\""
      case "\n": escaped += "\\n"
      default: escaped.append(character)
      }
    }
    return escaped
  }
}
