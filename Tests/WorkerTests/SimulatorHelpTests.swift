import APNsSimulator
import Foundation
import TestSupport
import Testing

/// What `apns-simulator --help` says is what it takes.
@Suite(.serialized, .timeLimit(.minutes(1)))
struct SimulatorHelpTests {
  @Test func eachWordOfAFaultIsTaken() throws {
    let values = ["=HEX": "=00", "=T": "=t", "=N": "=3", "=MS": "=5", "=CODE": "=8", "=ID": "=7", "split:N": "split:3"]
    let lines = FaultRule.manual.split(separator: "\n").map(String.init)
    let words = lines.filter { $0.hasPrefix("  ") }.map { line in
      let word = String(line.dropFirst(2).prefix { $0 != " " })
      let value = values.first { word.hasSuffix($0.key) }
      return value.map { word.dropLast($0.key.count) + $0.value } ?? word
    }
    #expect(words.count == 39 && Set(words.map { $0.prefix { $0 != "=" } }).count == 30, "\(words)")
    for word in words {
      // Some only say which requests, or go with another word.
      let faults = [word, "drop,\(word)", "status=503,\(word)", "goaway=all,\(word)", "streams=1,\(word)"]
      #expect(faults.contains { (try? FaultRule($0)) != nil }, "\(word)")
    }
  }

  /// Where a line is cut, nobody sees what belongs to which word.
  @Test func noLineIsCut() throws {
    let help = try ChildProcess.run(
      [try BuiltProgram.path("apns-simulator"), "--help"],
      environment: ChildProcess.inheritedEnvironment(without: ["COLUMNS"])
    ).output
    for line in FaultRule.manual.split(separator: "\n") {
      #expect(help.contains("\n\(line)\n"), "\(line)")
    }
    for line in help.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
  }

  /// The requests that the control port takes, `METHOD /path`.
  private func requests(_ text: String) -> Set<String> {
    Set(
      text.matches(of: /(?m)^ +(GET|POST|DELETE) (\/.*)$/).flatMap { line in
        line.2.matches(of: /(?:^|, )(\/[a-z]*(?:\/ID)?)/).map { "\(line.1) \($0.1)" }
      })
  }

  @Test func theControlPortTakesWhatTheHelpLists() throws {
    let help = try ChildProcess.run([try BuiltProgram.path("apns-simulator"), "--help"]).output
    let listed = requests(help)
    var options = SimulatorOptions()
    options.controlPort = 0
    let simulator = try Simulator(options)
    let port = try #require(try simulator.start().controlPort)
    defer { simulator.stop() }
    for request in listed {
      let words = request.split(separator: " ").map(String.init)
      let answer = LoopbackHTTP.request(words[0], words[1].replacing("/ID", with: "/1"), port: port)
      #expect(answer.map { $0.body.contains("no such thing here") } == false, "\(request): \(answer?.body ?? "none")")
    }
    let unknown = LoopbackHTTP.request("GET", "/nothing", port: port)
    #expect(unknown?.status == 404 && unknown?.body.contains("no such thing here") == true)
    // The reference lists the same.
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
    let page = try String(contentsOf: root.appending(path: "docs/reference/simulator.md"), encoding: .utf8)
    var documented: Set<String> = []
    for row in page.split(separator: "\n") where row.contains(/^\| `(GET|POST|DELETE)[ `]/) {
      // `GET`, `POST`, `DELETE /faults`: all of them at this path.
      var methods: [String] = []
      for quoted in row.split(separator: " | ")[0].matches(of: /`([A-Z]+)( \/[^`]*)?`/) {
        methods.append(String(quoted.1))
        guard let path = quoted.2 else { continue }
        documented.formUnion(methods.map { $0 + path })
        methods = []
      }
    }
    #expect(listed == documented, "\(listed.symmetricDifference(documented).sorted())")
  }
}
