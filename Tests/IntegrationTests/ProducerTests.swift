import Foundation
import PushNotifications
import TestSupport
import Testing

/// The examples of `docs/producers.md` against a real RabbitMQ and a worker: what they publish is accepted.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ProducerTests {
  /// The first block of a language in the documentation.
  private func example(_ language: String) throws -> String {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs/producers.md")
    let text = try String(contentsOf: file, encoding: .utf8)
    let begin = try #require(text.firstRange(of: "```\(language)\n"))
    let rest = text[begin.upperBound...]
    let end = try #require(rest.firstRange(of: "\n```"))
    return String(rest[..<end.lowerBound])
  }

  @Test func python() throws {
    let world = try WorkerWorld("python")
    let file = try world.folder.write(example("python"), to: "producer.py")
    func environment(_ exchange: String) -> [String] {
      ChildProcess.inheritedEnvironment(without: ["HERALD_"]) + [
        "HERALD_RABBITMQ_URL=\(world.rabbitmq.url)", "HERALD_JOBS_EXCHANGE=\(exchange)",
      ]
    }
    let result = try ChildProcess.run(
      ["/usr/bin/python3", file], environment: environment("\(world.prefix).jobs"), timeoutMilliseconds: 30_000)
    #expect(result.status == 0, "\(result.errors)")
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.map(\.outcome) == ["accepted"])
    #expect(outcomes.first?.jobID == outcomes.first?.apnsID, "the id is a UUID, and so the apns-id")
    // No queue takes the job: the producer gets an error.
    let lost = try ChildProcess.run(
      ["/usr/bin/python3", file], environment: environment("\(world.prefix).absent"), timeoutMilliseconds: 30_000)
    #expect(lost.status != 0)
  }

  struct Order: Encodable, Sendable { var order: String }

  @Test func swift() throws {
    let push = try AlertNotification(
      Alert(title: "Shipped", body: "Your order is on its way."), sound: .default, data: Order(order: "123"))
    let job = try Job(push, to: .device("00fc13adff785122b4ad28809a342098"), of: "com.example.app")
    let source = try String(contentsOfFile: #filePath, encoding: .utf8)
    let known = Set(source.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) })
    for line in try example("swift").split(separator: "\n") where line != "print(job.line)" {
      #expect(known.contains(line.trimmingCharacters(in: .whitespaces)), "\(line) is not compiled here")
    }

    let world = try WorkerWorld("swift")
    let goal = LiveActivityUpdate(["home": 1, "away": 0])
    let others = try [
      Job(BackgroundNotification(data: ["a": 1]), to: .device("00fc13ad"), of: "com.example.app"),
      Job(VoIPNotification(["caller": "Ada"]), to: .device("00fc13ad"), of: "com.example.app"),
      Job(goal, to: .devices([DeviceToken("00fc13ad"), DeviceToken("00fc13ae")]), of: "com.example.app"),
    ]
    let lines = ([job] + others).map(\.line).joined(separator: "\n") + "\n"
    let enqueued = try world.herald(["enqueue"], input: lines)
    #expect(enqueued.output == "4 of 4 jobs confirmed\n", "\(enqueued.errors)")
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.count == 5 && outcomes.allSatisfy { $0.outcome == "accepted" }, "\(outcomes)")
    #expect(Set(outcomes.compactMap(\.jobID)) == Set(([job] + others).map(\.id)))
  }
}
