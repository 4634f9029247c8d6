import Foundation
import Glibc
import PushCore
import PushStores
import TestSupport
import Testing

/// Jobs over HTTP: what 202 promises, and what is refused.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct GatewayJobTests {
  @Test func aJobIsQueuedBeforeTheAnswer() throws {
    let world = try GatewayWorld("job")
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    let answer = try world.ask("POST", "/v1/jobs", headers: ["traceparent: \(trace)"], body: world.job())
    let id = try world.id(answer)
    #expect(answer.status == 202 && answer.headers["location"] == "/v1/jobs/\(id)")
    let named = try world.ask("POST", "/v1/jobs?class=bulk&environment=sandbox", body: world.job("\"id\":\"a/b c\","))
    #expect(named.status == 202 && named.headers["location"] == "/v1/jobs/a%2Fb%20c")
    let jobs = try world.takeJobs()
    #expect(jobs.count == 1)
    let job = try #require(jobs.first)
    #expect(job.messageID == id && job.deliveryMode == 2 && job.headers["traceparent"] == trace)
    let body = String(decoding: job.body, as: UTF8.self)
    #expect(body.hasPrefix("{\"id\":\"\(id)\",\"app\":\"com.example.app\","))
    let bulk = try world.takeJobs("bulk")
    #expect(bulk.map(\.messageID) == ["a/b c"])
    let bulkBody = String(decoding: try #require(bulk.first).body, as: UTF8.self)
    #expect(bulkBody.contains("\"environment\":\"sandbox\""))
    // Known from the answer on.
    let known = try world.ask("GET", "/v1/jobs/a%2Fb%20c?environment=sandbox")
    #expect(known.body == "{\"id\":\"a/b c\",\"state\":\"queued\"}")
    #expect(try world.ask("GET", "/v1/jobs/nobody").status == 404)
    #expect(try world.ask("POST", "/v1/jobs/a%2Fb%20c/pause").status == 404)
    #expect(try world.ask("POST", "/v1/jobs/a%2Fb%20c/stop").status == 404)
  }

  /// Behind a balancer, the answer's `Location` is asked at another gateway.
  @Test func aJobIsKnownEverywhereOnceItIsAnswered() throws {
    let world = try GatewayWorld("everywhere")
    let other = try GatewayWorld("everywhere", prefix: world.prefix)
    let unknown = try (0..<100).count { number in
      let id = "job-\(number)"
      #expect(try world.ask("POST", "/v1/jobs", body: world.job("\"id\":\"\(id)\",")).status == 202)
      return try other.ask("GET", "/v1/jobs/\(id)", key: world.key).status == 404
    }
    #expect(unknown == 0, "of 100 jobs")
    let lines = (0..<500).map { world.job("\"id\":\"line-\($0)\",") }
    let answer = try world.ask(
      "POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"], body: lines.joined(separator: "\n"))
    #expect(answer.status == 202)
    #expect(try other.ask("GET", "/v1/jobs/line-499", key: world.key).status == 200)
  }

  /// Redis knows a job as long as it answers. A confirmed job is answered without it.
  @Test func aSilentRedisHoldsNoAnswerForLong() throws {
    let redis = try RedisServer()
    let world = try GatewayWorld("silent", redisURL: redis.url)
    // The gateway has read the key.
    #expect(try world.ask("POST", "/v1/jobs", body: world.job()).status == 202)
    redis.pause()
    defer { redis.resume() }
    let began = ContinuousClock.now
    #expect(try world.ask("POST", "/v1/jobs", body: world.job()).status == 202)
    #expect(began.duration(to: .now) < .seconds(3))
  }

  /// Another app's job has the same id.
  @Test func aJobOfAnotherAppIsNeitherShownNorSteered() throws {
    let redis = try RedisServer.shared()
    let world = try GatewayWorld("strangers")
    func run(_ app: String) throws {
      let scope = try #require(AppScope(app: app, environment: .production))
      let fields =
        "phase running fixed 0 published 0 ordinal 0 pages 0 settled 0 first 0 devices 0 begun 1 app \(app) environment production"
      let key = ExpansionKeys(prefix: "\(world.prefix):", AudienceID("sale", in: scope)).state
      _ = try redis.cli(["HSET", key] + fields.split(separator: " ").map(String.init))
    }
    try run("com.example.other")
    #expect(try world.ask("GET", "/v1/jobs/sale").status == 404)
    #expect(try world.ask("POST", "/v1/jobs/sale/cancel").status == 404)
    #expect(try world.ask("POST", "/v1/jobs", body: world.job("\"id\":\"sale\",")).status == 202)
    #expect(try world.ask("GET", "/v1/jobs/sale").body == "{\"id\":\"sale\",\"state\":\"queued\"}")
    #expect(try world.ask("POST", "/v1/jobs/sale/cancel").status == 404)
    // A worker begins it.
    try run("com.example.app")
    #expect(try world.ask("POST", "/v1/jobs/sale/pause").status == 200)
    #expect(try world.ask("GET", "/v1/jobs/sale").body.contains("\"state\":\"paused\""))
    let admin = try world.makeKey(["--scope", "admin"])
    let own = try world.ask("GET", "/v1/jobs/sale?app=com.example.other", key: admin)
    #expect(own.status == 200 && own.body.contains("\"state\":\"running\",\"cancelled\":false"))
  }

  @Test func aWrongJobIsRefusedWithItsFaultAndNotPublished() throws {
    let world = try GatewayWorld("wrong")
    let broken = try world.ask("POST", "/v1/jobs", body: "{")
    #expect(broken.status == 400 && broken.headers["content-type"] == "application/problem+json")
    let field = try world.ask("POST", "/v1/jobs", body: world.job("\"priority\":7,"))
    #expect(field.status == 400 && field.body.contains("\"errors\":[{\"pointer\":\"/priority\",\"rule\":\"must be"))
    #expect(try world.ask("POST", "/v1/jobs", body: world.job("\"app\":\"com.example.other\",")).status == 403)
    let broadcast = """
      {"push_type":"liveactivity","topic":"com.example.other.push-type.liveactivity","to":{"channel":"dHN0LXNyY2gtY2hubA=="},\
      "payload":{"aps":{"timestamp":1796000000,"event":"update","content-state":{"home":1}}}}
      """
    let foreign = try world.ask("POST", "/v1/jobs", body: broadcast)
    #expect(foreign.status == 403 && foreign.body.contains("\"pointer\":\"/topic\""), "\(foreign.body)")
    #expect(try world.ask("POST", "/v1/jobs?class=fast", body: world.job()).status == 400)
    #expect(try world.ask("POST", "/v1/jobs", headers: ["Content-Type: text/plain"], body: world.job()).status == 415)
    #expect(try world.ask("POST", "/v1/jobs", headers: ["Content-Encoding: gzip"], body: world.job()).status == 415)
    #expect(try world.ask("POST", "/v1/job", body: world.job()).status == 404)
    let method = try world.ask("PUT", "/v1/jobs", body: world.job())
    #expect(method.status == 405 && method.headers["allow"] == "POST")
    #expect(try world.ask("POST", "/json/1.3/startLiveActivity", body: "{}").status != 500)
    #expect(try world.takeJobs().isEmpty)
  }

  @Test func eachLineHasItsResult() throws {
    let world = try GatewayWorld("lines")
    let lines = [
      world.job("\"id\":\"one\","), "{\"id\":\"two\"}", "", world.job("\"app\":\"com.example.other\","), "x",
      world.job("\"id\":\"six\","),
    ]
    let answer = try world.ask(
      "POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"], body: lines.joined(separator: "\n"))
    #expect(answer.status == 202 && answer.headers["content-type"] == "application/x-ndjson")
    struct Line: Decodable {
      struct Fault: Decodable {
        let pointer: String
        let rule: String
      }
      let index: Int
      let status: Int
      let id: String?
      let errors: [Fault]?
    }
    let results = try answer.body.split(separator: "\n").map {
      try JSONDecoder().decode(Line.self, from: Data($0.utf8))
    }
    #expect(results.map(\.index) == [0, 1, 2, 3, 4])
    #expect(results.map(\.status) == [202, 400, 403, 400, 202])
    #expect(results.map(\.id) == ["one", nil, nil, nil, "six"])
    #expect(results[1].errors?.first?.pointer == "/push_type")
    #expect(try world.takeJobs().map(\.messageID) == ["one", "six"])
    let wrong = try world.ask(
      "POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"], body: "x\n{}\n")
    #expect(wrong.status == 400 && wrong.body.split(separator: "\n").count == 2)
    #expect(
      try world.ask("POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"], body: "\n").status == 400)
  }

  @Test func aRepeatedRequestIsCarriedOutOnce() throws {
    let world = try GatewayWorld("repeat")
    let headers = ["Idempotency-Key: \"order-1\""]
    let first = try world.ask("POST", "/v1/jobs", headers: headers, body: world.job())
    let again = try world.ask("POST", "/v1/jobs", headers: headers, body: world.job())
    #expect(first.status == 202 && first.headers["idempotency-replayed"] == nil)
    #expect(again.status == 202 && again.headers["idempotency-replayed"] == "true")
    #expect(again.body == first.body && again.headers["location"] == first.headers["location"])
    #expect(try world.ask("POST", "/v1/jobs", headers: headers, body: world.job() + " ").status == 422)
    #expect(try world.ask("POST", "/v1/jobs?class=bulk", headers: headers, body: world.job()).status == 422)
    #expect(try world.ask("POST", "/v1/jobs", headers: ["Idempotency-Key: a b"], body: world.job()).status == 400)
    // What was refused may be asked again.
    let other = ["Idempotency-Key: order-2"]
    #expect(try world.ask("POST", "/v1/jobs", headers: other, body: "{}").status == 400)
    #expect(try world.ask("POST", "/v1/jobs", headers: other, body: "{}").status == 400)
    // Another key's requests are others.
    let key = try world.makeKey(["--app", "com.example.app"])
    #expect(try world.ask("POST", "/v1/jobs", key: key, headers: headers, body: world.job() + " ").status == 202)
    #expect(try world.takeJobs().count == 2)
  }

  @Test func linesThatWereNotConfirmedAreSentByTheSameRequest() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("lines", rabbitmq: rabbitmq, isLogged: false)
    let count = 1_000
    let lines = String(repeating: world.job() + "\n", count: count)
    let headers = ["Idempotency-Key: campaign", "Content-Type: application/x-ndjson"]
    func answers(_ answer: LoopbackHTTP.Answer, _ status: Int) -> Int {
      answer.body.split(separator: "\n").count { $0.contains("\"status\":\(status)") }
    }
    // RabbitMQ refuses publishes to a queue that is full.
    _ = try rabbitmq.rabbitmqctl([
      "set_policy", "full", "jobs.transactional$", "{\"max-length\":50,\"overflow\":\"reject-publish\"}",
    ])
    let some = try world.ask("POST", "/v1/jobs", headers: headers, body: lines)
    #expect(some.status == 202 && answers(some, 202) > 0 && answers(some, 503) > 0, "\(some.body.prefix(300))")
    // Whoever watches the gateway sees it, as of workers.
    let metric = "herald_publish_refused{destination=\"\(world.prefix).jobs\",app=\"\",role=\"gateway\"}"
    let isTold = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) { () -> Bool? in
      _ = try? world.ask("POST", "/v1/jobs", body: world.job())
      return world.metric(metric) == 1 ? true : nil
    }
    #expect(isTold == true)
    _ = try rabbitmq.rabbitmqctl(["clear_policy", "full"])
    // RabbitMQ goes on refusing what comes over the same channel.
    let other = try GatewayWorld("lines", rabbitmq: rabbitmq, prefix: world.prefix, isLogged: false)
    let all = try other.ask("POST", "/v1/jobs", key: world.key, headers: headers, body: lines)
    #expect(answers(all, 202) == count, "\(all.body.prefix(300))")
    #expect(all.headers["idempotency-replayed"] == nil)
    // Those that were confirmed have the same ids, by which workers deduplicate them.
    let confirmed = Set(some.body.matches(of: /"status":202,"id":"([^"]+)"/).map(\.1))
    let again = Set(all.body.matches(of: /"status":202,"id":"([^"]+)"/).map(\.1))
    #expect(confirmed.isSubset(of: again))
    // Now everything is final.
    let replayed = try world.ask("POST", "/v1/jobs", headers: headers, body: lines)
    #expect(replayed.headers["idempotency-replayed"] == "true" && replayed.body == all.body)
    let tooMany = String(repeating: "{}\n", count: 10_001)
    let refused = try world.ask("POST", "/v1/jobs", headers: [headers[1]], body: tooMany)
    #expect(refused.status == 400 && refused.body.contains("at most 10000 lines"), "\(refused.body.prefix(300))")
  }

  @Test func withoutRabbitMQJobsAreRefused() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("broker", rabbitmq: rabbitmq, isLogged: false)
    // While it is paused, nothing is confirmed: the answer comes after the time for confirms.
    rabbitmq.pause()
    // Another request with the same idempotency key comes while the first one waits.
    let first = try RawSocket(port: world.port)
    let body = world.job()
    first.send(
      Array(
        """
        POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(world.key)\r\nIdempotency-Key: twice\r\n\
        Content-Length: \(body.utf8.count)\r\n\r\n\(body)
        """.utf8))
    #expect(world.waitForMetric("herald_gateway_open", 1))
    let twice = try world.ask("POST", "/v1/jobs", headers: ["Idempotency-Key: twice"], body: body)
    #expect(twice.status == 409 && twice.headers["retry-after"] == "1", "\(twice.body)")
    let late = try world.ask("POST", "/v1/jobs", body: world.job("\"id\":\"late\","))
    rabbitmq.resume()
    #expect(late.status == 503 && late.headers["retry-after"] == "1", "\(late.body)")
    #expect(late.body.contains("did not confirm it in time"))
    rabbitmq.kill()
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        LoopbackHTTP.request("GET", "/readyz", port: world.port)?.status == 503 ? true : nil
      } == true)
    let down = try world.ask("POST", "/v1/jobs", body: world.job("\"id\":\"down\","))
    #expect(
      down.status == 503 && down.body.contains("RabbitMQ is not connected; nothing was published"), "\(down.body)")
    #expect(LoopbackHTTP.request("GET", "/livez", port: world.port)?.status == 200)
    try rabbitmq.start()
    #expect(world.waitUntilReady(seconds: 60), "\(world.process.log)\n\(rabbitmq.log.suffix(1_000))")
    #expect(try world.ask("POST", "/v1/jobs", body: world.job("\"id\":\"back\",")).status == 202)
    let ids = try world.takeJobs().map(\.messageID)
    #expect(ids.contains("back") && !ids.contains("down"))
  }

  /// While RabbitMQ reads nothing, what was published stays in memory after its request was answered.
  @Test func whatRabbitMQDoesNotReadIsBounded() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("unsent", rabbitmq: rabbitmq, isLogged: false)
    let body = world.job(String(repeating: " ", count: 500_000))
    let request = Array(
      """
      POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(world.key)\r\nConnection: close\r\n\
      Content-Length: \(body.utf8.count)\r\n\r\n\(body)
      """.utf8)
    rabbitmq.pause()
    defer { rabbitmq.resume() }
    func answers(to count: Int) throws -> [String] {
      let clients = try (0..<count).map { _ in try RawSocket(port: world.port) }
      for client in clients { client.send(request) }
      return clients.map { String(decoding: $0.receive(milliseconds: 20_000), as: UTF8.self) }
    }
    // Bodies of all requests may take 64 MiB too: so they come in two parts.
    for answer in try answers(to: 100) { #expect(answer.contains("did not confirm it in time"), "\(answer)") }
    let last = try #require(answers(to: 60).last)
    #expect(
      last.hasPrefix("HTTP/1.1 503") && last.contains("too many jobs, or too many of this key, wait for RabbitMQ"),
      "\(last)")
    let ready = LoopbackHTTP.request("GET", "/readyz", port: world.port)
    #expect(
      ready?.status == 503 && ready?.body.contains("too many jobs wait for RabbitMQ's confirms") == true,
      "\(ready?.body ?? "")")
  }

  /// Every 202 that came before and during a kill of the broker, and a drain, is in the queue.
  @Test(arguments: ["broker", "gateway", "drain"])
  func noAnsweredJobIsLost(_ end: String) throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("lost", rabbitmq: rabbitmq, isLogged: false)
    let clients = (0..<8).map { GatewayStorm(world, number: $0) }
    for client in clients { client.start() }
    _ = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 20) {
      clients.map(\.takenCount).reduce(0, +) > 300 ? true : nil
    }
    switch end {
    case "broker":
      rabbitmq.kill()
      try rabbitmq.start()
      #expect(world.waitUntilReady(seconds: 60), "\(world.process.log)\n\(rabbitmq.log.suffix(1_000))")
    case "gateway":
      world.process.child.kill()
    default:
      #expect(world.process.drain(seconds: 20) == 0, "\(world.process.log)")
    }
    for client in clients { client.stop() }
    let taken = Set(clients.flatMap(\.taken))
    #expect(taken.count > 300)
    let kept = Set(try world.takeJobs().compactMap(\.messageID))
    #expect(taken.subtracting(kept).isEmpty, "\(taken.subtracting(kept).count) of \(taken.count) are lost")
  }
}
