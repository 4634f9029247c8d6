import Foundation
import PushIO
import TestSupport
import Testing

/// What `herald check` says of policies and arguments of queues, at a real RabbitMQ with its management API.
@Suite(.timeLimit(.minutes(3)))
struct QueuePoliciesTests {
  @Test func checkWarnsOfWhatDeletesOrRefuses() throws {
    let port = try LoopbackPort.free()
    let rabbitmq = try RabbitMQServer(
      configuration: ["management.tcp.ip = 127.0.0.1", "management.tcp.port = \(port)"],
      plugins: ["rabbitmq_management"])
    let world = try WorkerWorld("policies", rabbitmq: rabbitmq)
    let prefix = world.prefix
    func check(_ url: String?) throws -> [String] {
      let option = url.map { ", management_url: \"\($0)\"" } ?? ""
      let configuration = world.configuration().replacing("prefetch: 200}", with: "prefetch: 200\(option)}")
      let result = try world.herald(["check"], configuration: configuration)
      #expect(result.status == 0, "\(result.output)\(result.errors)")
      #expect(!result.output.contains("guest:guest") && !result.output.contains("wrong"), "\(result.output)")
      return result.output.split(separator: "\n").filter { $0.contains("rabbitmq policies: ") }
        .map { String($0).replacing("rabbitmq policies: ", with: "").replacing(prefix, with: "push") }
    }
    let url = "http://127.0.0.1:\(port)"
    #expect(try check(nil) == ["ok   not looked at: rabbitmq.management_url is not set"])
    #expect(try check(url) == ["ok   none deletes or refuses what is in Herald's queues"])

    func policy(_ name: String, _ pattern: String, _ definition: String, _ more: [String] = []) throws {
      _ = try rabbitmq.rabbitmqctl(["set_policy"] + more + [name, pattern, definition])
    }
    // Longer than the retry queues' own time, which stays; the log is a stream, without such a time.
    try policy("old", "^\(prefix)\\.", #"{"message-ttl":60000}"#, ["--apply-to", "queues"])
    try policy("spare", "^\(prefix)\\.dead$", #"{"max-length":10}"#, ["--priority", "5", "--apply-to", "queues"])
    try policy("size", "results.log$", #"{"max-length-bytes":1000000,"expires":5}"#, ["--priority", "5"])
    try policy(
      "topics", "^\(prefix)\\.", #"{"alternate-exchange":"x"}"#, ["--priority", "9", "--apply-to", "exchanges"])
    _ = try rabbitmq.rabbitmqctl([
      "set_operator_policy", "--apply-to", "queues", "house", "jobs.bulk$|retry.bulk.1$",
      #"{"max-length":5,"expires":3600000}"#,
    ])
    // Analysts' queues: one by its argument, one by a policy and another exchange, one that drops.
    let admin = try AMQPAdmin(patientURL: rabbitmq.url)
    defer { admin.close() }
    let refusing = AMQPArgument("x-overflow", .text("reject-publish"))
    let analysts: [(String, [AMQPArgument])] = [
      ("direct", [refusing]), ("behind", []), ("drops", [AMQPArgument("x-max-length", .number(1))]),
    ]
    for (name, arguments) in analysts {
      try admin.perform(.declareQueue(name: "\(name)-analyst", arguments: arguments))
    }
    try admin.perform(.declareExchange(name: "analysts", kind: .fanout, arguments: []))
    for name in ["direct", "drops"] {
      try admin.perform(.bind(queue: "\(name)-analyst", exchange: "\(prefix).results", routingKey: "#"))
    }
    try admin.perform(.bind(queue: "behind-analyst", exchange: "analysts", routingKey: ""))
    try policy("analysts", "^behind", #"{"max-length":9,"overflow":"reject-publish-dlx"}"#)
    let answer = LoopbackHTTP.request(
      "POST", "/api/bindings/%2F/e/\(prefix).results/e/analysts", port: port,
      headers: ["Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type: application/json"],
      body: ##"{"routing_key":"#"}"##)
    #expect(answer?.status == 201, "\(String(describing: answer))")

    let found = try check(url)
    print(found.joined(separator: "\n"))
    let outcomes = """
      once it is full, outcomes wait in workers and hold up their jobs; let it drop its oldest messages (overflow drop-head), or read \
      push.results.log instead
      """
    let expected = """
      push.dead: policy "spare" sets max-length 10: once it is full, RabbitMQ deletes its oldest messages
      push.undelivered, push.undelivered.late: policy "old" sets message-ttl 60000: what waits here longer becomes a dead letter, perhaps \
      without an outcome
      push.registrations: policy "old" sets message-ttl 60000: registrations that wait longer are lost
      push.channels, push.channels.isolated: policy "old" sets message-ttl 60000: requests that wait longer are answered as unavailable
      push.jobs.isolated, push.jobs.transactional, push.jobs.bulk: policy "old" sets message-ttl 60000: jobs that wait longer end as \
      expired
      push.expansions, push.expansions.bulk: policy "old" sets message-ttl 60000: audiences that wait longer go round by \
      push.undelivered, again and again
      push.jobs.bulk, push.retry.bulk.1: operator policy "house" sets max-length 5: once it is full it refuses, and what it refuses \
      waits in workers and producers
      push.jobs.bulk: operator policy "house" sets expires 3600000: RabbitMQ deletes the queue with all that waits in it, once no worker \
      has run for so long
      push.retry.bulk.1: operator policy "house" sets expires 3600000: nothing consumes this queue, so RabbitMQ deletes it with all that \
      waits in it
      push.results.log: policy "size" sets max-length-bytes 1000000: outcomes leave the log before results.log_max_bytes
      """
    let warnings =
      expected.split(separator: "\n").map { "WARN \($0); change its pattern to leave the queue out" } + [
        "WARN direct-analyst: its argument x-overflow sets overflow reject-publish: \(outcomes)",
        "WARN behind-analyst: policy \"analysts\" sets overflow reject-publish-dlx: \(outcomes)",
      ]
    #expect(Set(found).subtracting(warnings) == [])
    #expect(Set(warnings).subtracting(found) == [])

    // A wrong login, and no API: it says that it did not look.
    let refused = try check("http://guest:wrong@127.0.0.1:\(port)")
    #expect(
      refused.count == 1 && refused[0].hasPrefix("WARN not looked at: 127.0.0.1:\(port) does not let the user read"),
      "\(refused)")
    let closed = try LoopbackPort.free()
    let silent = try check("http://127.0.0.1:\(closed)")
    #expect(silent.count == 1 && silent[0].hasPrefix("WARN not looked at: no management API answers"), "\(silent)")
  }
}
