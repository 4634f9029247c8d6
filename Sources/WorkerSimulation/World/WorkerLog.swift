/// The log lines of a simulated worker.
final class WorkerLog {
  private let name: String
  private let network: SimulatedNetwork
  private(set) var lines: [String] = []
  /// Whether one of its lanes reported a standstill.
  private(set) var stoodStill = false
  private static let linesMaximum = 1000

  init(name: String, network: SimulatedNetwork) {
    self.name = name
    self.network = network
  }

  func note(_ text: String) {
    if text.contains("stands still") { stoodStill = true }
    if lines.count < WorkerLog.linesMaximum { lines.append("\(network.now / 1_000_000) \(name) \(text)") }
  }
}
