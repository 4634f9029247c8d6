import Foundation
import TestSupport
import Testing

/// `herald devices` and the worker that stores registrations: programs, a real RabbitMQ and Redis.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct DevicesCommandTests {
  private func device(_ number: Int, _ environment: String = "production", user: String = "u-1") -> String {
    "{\"version\":1,\"kind\":\"device\",\"at\":170000000000\(number % 10),\"app\":\"com.example.app\",\"environment\":\"\(environment)\","
      + "\"device\":\"hwid-\(number)\",\"user\":\"\(user)\",\"token\":\"00fc13ad0000\(number + 1000)\",\"os_version\":\"18.1\","
      + "\"tags\":{\"level\":\(number),\"plan\":\"gold\"}}"
  }

  @Test func registeredDevicesAreShownExportedImportedAndForgotten() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("devices", redisURL: redis.url)
    func herald(_ words: String...) throws -> ChildProcess.Output { try world.herald(["devices"] + words) }
    let options = ["--app", "com.example.app", "--environment", "production"]
    for number in 0..<12 {
      try world.outside.publish(device(number), exchange: "", routingKey: "\(world.prefix).registrations")
    }
    try world.outside.publish(device(0, "sandbox"), exchange: "", routingKey: "\(world.prefix).registrations")
    try world.outside.publish("{}", exchange: "", routingKey: "\(world.prefix).registrations")
    try world.runUntilEmpty()

    let counted = try herald("count", "--json")
    #expect(
      counted.output == """
        {"app":"com.example.app","environment":"production","devices":12,"with_token":12}
        {"app":"com.example.app","environment":"sandbox","devices":1,"with_token":1}

        """, "\(counted.errors)")
    let shown = try world.herald(["devices", "show", "hwid-3", "00fc13ad00001004"] + options)
    #expect(shown.status == 0 && shown.output.split(separator: "\n").count == 3, "\(shown.output)\(shown.errors)")
    #expect(shown.output.contains("hwid-3") && shown.output.contains("hwid-4") && shown.output.contains("18.1"))
    let unknown = try world.herald(["devices", "show", "nobody", "--json"] + options)
    #expect(unknown.status == 1 && unknown.output.isEmpty && unknown.errors.contains("nobody is not known"))
    let line = try world.herald(["devices", "show", "hwid-3", "--json"] + options).output
    #expect(line == device(3) + "\n")

    // In two parts, and into another prefix.
    let first = try world.herald(["devices", "export", "--limit", "5"] + options)
    let cursor = try #require(first.errors.firstMatch(of: /5 devices exported; go on with --after ([0-9]+)/)?.1)
    let second = try world.herald(["devices", "export", "--after", String(cursor)] + options)
    #expect(second.errors.contains("7 devices exported"))
    let lines = first.output + second.output
    #expect(Set(lines.split(separator: "\n").map(String.init)) == Set((0..<12).map { device($0) }))
    let file = try world.folder.write(lines + "{\"kind\":1}\n" + device(1, "sandbox") + "\n", to: "devices.jsonl")
    let other = world.configuration().replacing("prefix: \"\(world.prefix):\"", with: "prefix: \"\(world.prefix)-b:\"")
    let imported = try world.herald(["devices", "import", "--after", "2", file] + options, configuration: other)
    #expect(imported.status == 1 && imported.output.contains("12 lines: 10 devices added, 0 changed, 0 known already"))
    #expect(imported.errors.contains("line 13: kind: must be a string, not 1"), "\(imported.errors)")
    #expect(imported.errors.contains("line 14: app: is that of com.example.app in sandbox"), "\(imported.errors)")
    let again = try world.herald(["devices", "import", "--json", file] + options, configuration: other)
    #expect(again.output.contains("\"added\":2,\"changed\":0,\"unchanged\":10"), "\(again.output)")

    // In all environments, for a privacy request; registrations in flight are ignored.
    let forgotten = try herald("forget", "--user", "u-1", "--json")
    #expect(forgotten.status == 0 && forgotten.output.contains("\"environment\":\"sandbox\",\"forgotten\":1"))
    #expect(forgotten.output.contains("\"environment\":\"production\",\"forgotten\":12"), "\(forgotten.output)")
    try world.outside.publish(device(7), exchange: "", routingKey: "\(world.prefix).registrations")
    try world.runUntilEmpty()
    #expect(try herald("count").output.split(separator: "\n").dropFirst().allSatisfy { $0.contains(" 0 ") })
    #expect(try redis.cli(["KEYS", "\(world.prefix):{devices:*:p:*"]).allSatisfy(\.isWhitespace))
    #expect(try herald("forget", "hwid-1").status == 64)
    #expect(try world.herald(["devices", "forget", "hwid-1"] + options).output.contains("0 forgotten"))

    // The invalid one is replayed to its queue, and is invalid again.
    let replayed = try world.herald(["dead-letters", "replay", "--reason", "invalid"])
    #expect(replayed.output == "1 of 1 matching dead letters replayed\n", "\(replayed.output)\(replayed.errors)")
    try world.runUntilEmpty()
    #expect(try world.outside.drain("\(world.prefix).dead").map(\.body) == [Array("{}".utf8)])
  }

  /// A pager shows the first page for as long as someone reads it, longer than Redis may take for an answer.
  @Test func anExportGoesOnAfterItsReaderPaused() throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("devices-paused", redisURL: redis.url)
    let options = ["--app", "com.example.app", "--environment", "production"]
    let file = try world.folder.write(
      (0..<3_000).map { device($0) }.joined(separator: "\n") + "\n", to: "devices.jsonl")
    #expect(try world.herald(["devices", "import", file] + options).status == 0)
    let export = [try BuiltProgram.path("herald"), "devices", "export", "--config", world.configurationFile] + options
    let read = try ChildProcess.run(
      ["/bin/sh", "-c", "\"$@\" | { sleep 6; cat; }", "sh"] + export, timeoutMilliseconds: 60_000)
    #expect(
      read.output.split(separator: "\n").count == 3_000 && read.errors.contains("3000 devices exported"),
      "\(read.errors)")
  }

  @Test func aWorkerTellsWhatBecameOfRegistrations() throws {
    let world = try WorkerWorld("devices-metrics")
    let worker = try world.startWorker()
    try world.outside.bind(queue: "\(world.prefix).unused", to: "amq.fanout")
    #expect(worker.waitForLine("rabbitmq (consumer): connected"), "\(worker.log)")
    for number in 0..<3 {
      try world.outside.publish(device(number), exchange: "", routingKey: "\(world.prefix).registrations")
    }
    let metrics = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 50) { () -> String? in
      let text = world.admin("/metrics")?.body ?? ""
      return text.contains("\nherald_registrations_total{kind=\"device\",result=\"added\"} 3\n") ? text : nil
    }
    #expect(metrics?.contains("\nherald_registrations_connected 1\n") == true, "\(worker.log)")
    #expect(metrics?.contains("\nherald_registrations_total{kind=\"forget\",result=\"changed\"} 0\n") == true)
    #expect(worker.drain(seconds: 30) == 0, "\(worker.log)")
  }
}
