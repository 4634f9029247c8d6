import ArgumentParser
import Foundation
import PushOperations
import PushSettings

struct CheckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "check",
    abstract: "Checks the configuration, keys and certificates, and that every service answers.",
    discussion: "A line for each. Exits 78 where the configuration is at fault, 1 where a service is.")

  @OptionGroup var common: CommonOptions

  @Flag(help: "Check without the network.")
  var offline = false

  @Flag(help: "Also show the pools of the worker that runs with this configuration, from its admin port.")
  var live = false

  @Flag(help: "Print findings as JSON Lines; with --live, the worker's status as a last line.")
  var json = false

  func validate() throws {
    if offline && live { throw ValidationError("--live asks over the network; leave --offline out") }
  }

  func run() throws {
    let configuration = try common.load()
    var findings: [Checker.Finding] = []
    Checker(configuration).run(offline: offline) { finding in
      findings.append(finding)
      show(finding)
    }
    if live { findings.append(showLive(configuration)) }
    let failures = findings.filter { !$0.isGood }
    if failures.contains(where: \.concernsConfiguration) { throw ExitCode(78) }
    if !failures.isEmpty { throw ExitCode(1) }
  }

  /// Shows the worker's own report; the finding says whether the worker answered.
  private func showLive(_ configuration: Configuration) -> Checker.Finding {
    do {
      let (status, bytes) = try AdminClient(configuration.admin).status()
      if json {
        print(String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .newlines))
      } else {
        for line in StatusTable.lines(status) { print(line) }
      }
      return .worker(error: nil)
    } catch {
      let finding = Checker.Finding.worker(error: "\(error)")
      show(finding)
      return finding
    }
  }

  private func show(_ finding: Checker.Finding) {
    if json, let line = try? JSONEncoder().encode(finding) {
      print(String(decoding: line, as: UTF8.self))
    } else {
      let result = finding.isWarning ? "WARN" : finding.isGood ? "ok  " : "FAIL"
      print("\(result) \(finding.subject): \(finding.text)")
    }
  }
}
