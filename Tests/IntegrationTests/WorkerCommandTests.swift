import Foundation
import Glibc
import TestSupport
import Testing

/// Wrong inputs of the commands: each has its exit status, and a message that names what is wrong.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerCommandTests {
  @Test func wrongKeyFile() throws {
    let world = try WorkerWorld("key")
    let file = try world.folder.write("not a key\n", to: "Wrong.p8")
    for path in [file, world.folder.path("Absent.p8")] {
      for command in [["run"], ["send", "/dev/null"], ["check", "--offline"]] {
        let result = try world.herald(command, configuration: world.configuration(keyFile: path))
        #expect(result.status == 78, "\(command): \(result.errors)")
        #expect((result.errors + result.output).contains(path), "\(command): \(result.errors)")
      }
    }
  }

  @Test func wrongPasswordIsReportedOnce() throws {
    let world = try WorkerWorld("password")
    let url = "amqp://guest:secret-word@127.0.0.1:\(world.rabbitmq.port)/"
    let worker = try world.startWorker(configuration: world.configuration(rabbitmqURL: url))
    #expect(worker.waitForLine("ACCESS_REFUSED"), "\(worker.log)")
    usleep(4_000_000)
    // Once by the lane, once by each other consumer: they have separate connections.
    let reporters = worker.lines.filter { $0.contains("ACCESS_REFUSED") }
      .map { $0.firstMatch(of: /"lane":"([^"]+)"/).map { String($0.1) } ?? "?" }
    #expect(reporters.sorted() == ["0", "channels", "expansions", "registrations", "undelivered"], "\(worker.log)")
    #expect(worker.lines.count <= 10, "\(worker.log)")
    #expect(worker.waitForLine("ACCESS_REFUSED", "127.0.0.1:\(world.rabbitmq.port)", seconds: 1))
    #expect(!worker.log.contains("secret-word"))
    #expect(worker.drain(seconds: 5) == 0, "\(worker.log)")
    let enqueued = try world.herald(
      ["enqueue"], configuration: world.configuration(rabbitmqURL: url), input: world.job("1") + "\n")
    #expect(enqueued.status == 1)
    #expect(
      enqueued.errors.contains("ACCESS_REFUSED") && !enqueued.errors.contains("secret-word"), "\(enqueued.errors)")
  }

  /// A job over several lines is no job in any of them.
  @Test func enqueueChecksBeforeItPublishes() throws {
    let world = try WorkerWorld("unchecked")
    let pretty = "{\n  \"version\": 1,\n  \"id\": \"pretty\"\n}\n"
    let mixed = try world.herald(["enqueue"], input: world.job("sound") + "\n" + pretty)
    #expect(mixed.status == 1)
    #expect(mixed.output == "1 of 5 jobs confirmed; 4 are no jobs and were not published\n", "\(mixed.output)")
    #expect(mixed.errors.contains("line 2: body: is not JSON") && mixed.errors.contains("jq -c"), "\(mixed.errors)")
    let json = try world.herald(["enqueue", "--json", "--unchecked"], input: "{}\n")
    #expect(json.output == #"{"read":1,"confirmed":1,"refused":0,"invalid":0}"# + "\n", "\(json.output)\(json.errors)")
    try world.runUntilEmpty()
    #expect(try world.takeOutcomes().map(\.outcome).sorted() == ["accepted", "invalid"])
  }

  @Test func wrongConfiguration() throws {
    let world = try WorkerWorld("configuration")
    let text = world.configuration(furtherLines: "drain_timeout: 5")
    for command in [["run"], ["check"], ["enqueue", "/dev/null"]] {
      let result = try world.herald(command, configuration: text)
      #expect(result.status == 78)
      #expect(result.errors.contains("drain_timeout") && result.errors.contains("drain_timeout_s"), "\(result.errors)")
    }
    let broken = try world.herald(["run"], configuration: "rabbitmq: {url: ")
    #expect(broken.status == 78 && broken.errors.contains("other.yaml"), "\(broken.errors)")
    let absent = try ChildProcess.run([try BuiltProgram.path("herald"), "run", "--config", "/no/such/herald.yaml"])
    #expect(absent.status == 78 && absent.errors.contains("/no/such/herald.yaml"), "\(absent.errors)")
  }

  @Test func unreadableJobsFile() throws {
    let world = try WorkerWorld("file")
    let absent = world.folder.path("absent.jsonl")
    for command in ["send", "enqueue"] {
      for file in [absent, world.folder.path] {
        let result = try world.herald([command, file])
        #expect(result.status == 1, "\(command) \(file): \(result.output)\(result.errors)")
        #expect(result.errors.contains(file), "\(command) \(file): \(result.errors)")
      }
    }
  }

  @Test func check() throws {
    let world = try WorkerWorld("check")
    let good = try world.herald(["check"])
    #expect(good.status == 0, "\(good.output)\(good.errors)")
    for subject in [
      "configuration", "credential main", "rabbitmq", "redis", "apns.production", "apns.manage_production",
    ] {
      #expect(good.output.contains("ok   \(subject): "), "\(good.output)")
    }
    let port = try LoopbackPort.free()
    let dead = "https://127.0.0.1:\(port)"
    let noAPNs = try world.herald(["check"], configuration: world.configuration(production: dead))
    #expect(noAPNs.status == 1)
    #expect(noAPNs.output.contains("FAIL apns.production: "), "\(noAPNs.output)")
    #expect(noAPNs.output.contains("127.0.0.1:\(port)"), "\(noAPNs.output)")
    let noBroker = try world.herald(
      ["check"], configuration: world.configuration(rabbitmqURL: "amqp://guest:guest@127.0.0.1:\(port)/"))
    #expect(noBroker.status == 1)
    #expect(noBroker.output.contains("FAIL rabbitmq: "), "\(noBroker.output)")
    #expect(!noBroker.output.contains("guest:guest"))
    let offline = try world.herald(["check", "--offline"], configuration: world.configuration(production: dead))
    #expect(offline.status == 0, "\(offline.output)")
  }

  @Test func helpVersionAndUsage() throws {
    let program = try BuiltProgram.path("herald")
    let help = try ChildProcess.run([program, "--help"])
    #expect(help.status == 0)
    for command in ["run", "check", "send", "enqueue", "results"] { #expect(help.output.contains("  \(command) ")) }
    let version = try ChildProcess.run([program, "--version"])
    #expect(version.status == 0)
    #expect(version.output.split(separator: ".").count == 3, "\(version.output)")
    for wrong in [
      ["walk"], ["run", "--fast"], ["enqueue", "--class", "express"], ["results", "--limit", "0"],
      // The time until the next copy would be no number of milliseconds.
      ["dead-letters", "replay", "--rate", "1e-300"], ["dead-letters", "replay", "--rate", "nan"],
    ] {
      let result = try ChildProcess.run([program] + wrong)
      #expect(result.status == 64, "\(wrong): \(result.status)")
      #expect(result.output.isEmpty && result.errors.contains("Usage"), "\(wrong): \(result.errors)")
    }
  }

  @Test func sendNeedsNoBroker() throws {
    let world = try WorkerWorld("send")
    let jobs = (0..<20).map { world.job("job-\($0)", number: $0) } + [world.job("gone", token: "dead", number: 99)]
    let dead = "amqp://guest:guest@127.0.0.1:\(try LoopbackPort.free())/"
    let configuration = world.configuration(rabbitmqURL: dead)
    let mixed = try world.herald(
      ["send", "-"], configuration: configuration, input: jobs.joined(separator: "\n") + "\n")
    #expect(mixed.status == 1)
    #expect(mixed.errors.contains("1 unregistered"), "\(mixed.errors)")
    let outcomes = try mixed.output.split(separator: "\n").map {
      try JSONDecoder().decode(WorkerWorld.Outcome.self, from: Data($0.utf8))
    }
    #expect(Set(outcomes.compactMap(\.jobID)).count == 21 && outcomes.count == 21)
    let good = try world.herald(["send"], configuration: configuration, input: world.job("good", number: 5) + "\n")
    #expect(good.status == 0, "\(good.errors)")
  }
}
