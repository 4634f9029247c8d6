/// The result of a row's run.
package struct FaultResult: Sendable {
  package struct Figure: Sendable {
    package let name: String
    package let value: Double
    package let unit: String
  }

  package let row: FaultRow
  package internal(set) var figures: [Figure] = []
  /// Broken promises: they must hold on any machine, however busy.
  package internal(set) var problems: [String] = []
  /// Missed goals for times, rates and memory: they hold if nothing else uses machine and process.
  package internal(set) var misses: [String] = []

  package var isHeld: Bool { problems.isEmpty && misses.isEmpty }

  package func value(_ name: String) -> Double? { figures.first { $0.name == name }?.value }

  mutating func add(_ name: String, _ value: Double, _ unit: String = "") {
    figures.append(Figure(name: name, value: value, unit: unit))
  }

  mutating func require(_ condition: Bool, _ problem: @autoclosure () -> String) {
    if !condition { problems.append(problem()) }
  }

  mutating func aim(_ condition: Bool, _ miss: @autoclosure () -> String) {
    if !condition { misses.append(miss()) }
  }
}
