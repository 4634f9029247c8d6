import Foundation
import PushCore

/// The figures of a measurement: each run's values, shown as their median with minimum and maximum.
struct Figures {
  private var names: [String] = []
  private var values: [String: [Double]] = [:]
  private var units: [String: String] = [:]

  mutating func add(_ name: String, _ value: Double, _ unit: String) {
    if values[name] == nil { names.append(name) }
    values[name, default: []].append(value)
    units[name] = unit
  }

  func median(_ name: String) -> Double? {
    guard let sorted = values[name]?.sorted(), !sorted.isEmpty else { return nil }
    return sorted.count % 2 == 1
      ? sorted[sorted.count / 2] : (sorted[sorted.count / 2 - 1] + sorted[sorted.count / 2]) / 2
  }

  func show(_ measurement: String, json: Bool) throws {
    if json {
      var object: [String: Any] = ["measurement": measurement]
      for name in names {
        guard let runs = values[name], let median = median(name) else { continue }
        object[name] = ["median": median, "runs": runs, "unit": units[name] ?? ""]
      }
      let data = try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys])
      print(String(decoding: data, as: UTF8.self))
      return
    }
    print(measurement)
    for name in names {
      guard let runs = values[name], let median = median(name), let low = runs.min(), let high = runs.max() else {
        continue
      }
      print(
        "  \(pad(name, 34)) \(pad(number(median), 12, left: true)) \(units[name] ?? "")   (\(number(low)) – \(number(high)))"
      )
    }
  }

  private func number(_ value: Double) -> String {
    value >= 1000 ? String(format: "%.0f", value) : String(format: "%.3g", value)
  }

  private func pad(_ text: String, _ width: Int, left: Bool = false) -> String {
    let space = String(repeating: " ", count: max(0, width - text.count))
    return left ? space + text : text + space
  }
}

/// Elapsed wall time, microseconds.
func microseconds(since start: ContinuousClock.Instant) -> Double {
  let elapsed = ContinuousClock.now - start
  return Double(elapsed.components.seconds) * 1e6 + Double(elapsed.components.attoseconds) / 1e12
}
