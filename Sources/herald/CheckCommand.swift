import ArgumentParser
import Foundation
import PushWorker

struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Checks the configuration, keys and certificates, and that every service answers.",
    discussion: "A line for each. Exits 78 where the configuration is at fault, 1 where a service is.")

  @OptionGroup var common: CommonOptions

  @Flag(help: "Leave the network out.")
  var offline = false

  @Flag(help: "Print findings as JSON Lines.")
  var json = false

  func run() throws {
    let configuration = try common.load()
    var findings: [Checker.Finding] = []
    Checker(configuration).run(offline: offline) { finding in
      findings.append(finding)
      show(finding)
    }
    let failures = findings.filter { !$0.isGood }
    if failures.contains(where: \.concernsConfiguration) { throw ExitCode(78) }
    if !failures.isEmpty { throw ExitCode(1) }
  }

  private func show(_ finding: Checker.Finding) {
    if json, let line = try? JSONEncoder().encode(finding) {
      print(String(decoding: line, as: UTF8.self))
    } else {
      print("\(finding.isGood ? "ok  " : "FAIL") \(finding.subject): \(finding.text)")
    }
  }
}
