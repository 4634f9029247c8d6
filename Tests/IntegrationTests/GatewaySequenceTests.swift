import Foundation
import PushCore
import TestSupport
import Testing

/// The numbers that gateways give to jobs: in a request's order, and newer than all that was answered before, at whichever gateway.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct GatewaySequenceTests {
  private func job(_ id: String, _ members: String = #""collapse_id":"c","#) -> String {
    #"{"id":"\#(id)","environment":"production","app":"com.example.app",\#(members)"push_type":"alert","to":{"token":"00fc13adff785122"},"payload":{"aps":{"alert":"hi"}}}"#
  }

  /// The jobs in the queue by id.
  private func take(_ world: GatewayWorld) throws -> [String: (sequence: Int64?, body: String)] {
    struct Job: Decodable {
      let id: String
      let sequence: Int64?
    }
    let jobs = try world.takeJobs().map { message in
      (try JSONDecoder().decode(Job.self, from: Data(message.body)), String(decoding: message.body, as: UTF8.self))
    }
    return Dictionary(uniqueKeysWithValues: jobs.map { ($0.id, ($0.sequence, $1)) })
  }

  /// What a device says at one gateway after another one's answer is newer, however near their clocks are.
  @Test func aRegistrationIsDatedByRedisClock() throws {
    struct Registration: Decodable { let at: Int64 }
    func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }
    let world = try GatewayWorld("dated", millisecondsAhead: -900)
    let before = now()
    #expect(try world.ask("PUT", "/v1/devices/d", body: "{}").status == 202)
    let message = try #require(try world.outside.drain("\(world.prefix).registrations").first)
    let at = try JSONDecoder().decode(Registration.self, from: Data(message.body)).at
    #expect((before - 100...now() + 100).contains(at), "\(at - before) ms")
  }

  /// Clocks of one fleet differ by milliseconds, also where they are corrected.
  @Test func registrationsAreNotDatedBack_atWhicheverGateway() throws {
    struct Registration: Decodable { let at: Int64 }
    let redis = try RedisServer()
    let further = ["applications: {XXXXX-XXXXX: {app: com.example.app}}"]
    let first = try GatewayWorld("dates", redisURL: redis.url, further: further, millisecondsAhead: 18)
    let second = try GatewayWorld(
      "dates", redisURL: redis.url, prefix: first.prefix, further: further, millisecondsAhead: -18)
    for kind in ["PUT", "DELETE", "registerUser"] {
      for round in 0..<10 {
        let world = round % 2 == 0 ? first : second
        switch kind {
        case "PUT": #expect(try world.ask("PUT", "/v1/devices/d", body: "{}").status == 202)
        case "DELETE": #expect(try world.ask("DELETE", "/v1/users/u").status == 202)
        default:
          let body = #"{"request":{"application":"XXXXX-XXXXX","hwid":"d","userId":"u","auth":"\#(world.key)"}}"#
          let answer = try world.ask("POST", "/json/1.3/registerUser", body: body)
          #expect(answer.body.contains("\"status_code\":200"), "\(answer.body)")
        }
      }
      let dates = try first.outside.drain("\(first.prefix).registrations").map {
        try JSONDecoder().decode(Registration.self, from: Data($0.body)).at
      }
      #expect(dates.count == 10 && dates == dates.sorted() && Set(dates).count > 5, "\(kind): \(dates)")
    }
  }

  /// Without Redis a gateway numbers and dates by its own clock. Where that is wrong, nobody does once Redis is back.
  @Test func numbersOfAWrongClock_endWithTheTimeWithoutRedis() throws {
    struct Registration: Decodable { let at: Int64 }
    let redis = try RedisServer()
    let folder = try TemporaryFolder("keys")
    let right = try GatewayWorld("wrong", redisURL: redis.url, further: ["keys_file: \"\(folder.path("right"))\""])
    redis.stop()
    let wrong = try GatewayWorld(
      "wrong", redisURL: redis.url, prefix: right.prefix, further: ["keys_file: \"\(folder.path("wrong"))\""],
      millisecondsAhead: 7_200_000)
    func ahead(_ world: GatewayWorld) throws -> Int64 {
      #expect(try world.ask("PUT", "/v1/devices/d", body: "{}").status == 202)
      let message = try #require(try world.outside.drain("\(world.prefix).registrations").last)
      let at = try JSONDecoder().decode(Registration.self, from: Data(message.body)).at
      return at - Int64(Date().timeIntervalSince1970 * 1_000)
    }
    #expect(try ahead(wrong) > 7_000_000, "it cannot know")
    // A number from two hours ahead would make all later jobs old.
    #expect(try wrong.ask("POST", "/v1/jobs", body: job("early")).status == 202)
    let early = try #require(try wrong.takeJobs().first)
    #expect(!String(decoding: early.body, as: UTF8.self).contains("sequence"))
    try redis.start()
    let isMended = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 200) { () -> Bool? in
      _ = try? ahead(wrong)
      return wrong.process.log.contains("Redis numbers them again; ") ? true : nil
    }
    #expect(isMended == true, "\(wrong.process.log)")
    for world in [wrong, right, wrong, right] {
      let milliseconds = try ahead(world)
      #expect((-5_000...1_000).contains(milliseconds), "\(milliseconds) ms ahead")
    }
    redis.stop()
    #expect((-5_000...1_000).contains(try ahead(wrong)), "its clock was corrected")
  }

  /// A job that was answered 503 is posted again, at another gateway, after a newer one: it stays the older one.
  @Test func anIDThatIsPostedAgain_keepsItsNumber() throws {
    struct Job: Decodable {
      let id: String
      let sequence: Int64?
    }
    let rabbitmq = try RabbitMQServer()
    let first = try GatewayWorld("again", rabbitmq: rabbitmq, isLogged: false)
    let second = try GatewayWorld("again", rabbitmq: rabbitmq, prefix: first.prefix, isLogged: false)
    func post(_ id: String, _ world: GatewayWorld) throws -> Int {
      try world.ask("POST", "/v1/jobs", body: job(id)).status
    }
    #expect(try post("confirmed", first) == 202)
    // Nobody knows whether this one is published; the next one is not.
    rabbitmq.pause()
    #expect(try post("unconfirmed", first) == 503)
    rabbitmq.resume()
    rabbitmq.kill()
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        LoopbackHTTP.request("GET", "/readyz", port: first.port)?.status == 503 ? true : nil
      } == true)
    let lines = try first.ask(
      "POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"],
      body: [job("disconnected"), job("disconnected-2")].joined(separator: "\n"))
    #expect(lines.status == 503, "\(lines.body)")
    try rabbitmq.start()
    #expect(first.waitUntilReady(seconds: 60) && second.waitUntilReady(seconds: 60), "\(first.process.log)")
    #expect(try post("newer", first) == 202)
    let olderIDs = ["confirmed", "unconfirmed", "disconnected", "disconnected-2"]
    for id in olderIDs { #expect(try post(id, second) == 202) }
    var numbers: [String: Set<Int64>] = [:]
    for message in try first.takeJobs() {
      let job = try JSONDecoder().decode(Job.self, from: Data(message.body))
      numbers[job.id, default: []].insert(try #require(job.sequence))
    }
    #expect(numbers.values.allSatisfy { $0.count == 1 }, "\(numbers)")
    let newer = try #require(numbers["newer"]?.first)
    let older = olderIDs.compactMap { numbers[$0]?.first }
    #expect(older.count == olderIDs.count && older == older.sorted() && older.allSatisfy { $0 < newer }, "\(numbers)")
    // Another app's job with the same id is another one.
    let admin = try first.makeKey(["--scope", "admin"])
    let other = job("disconnected").replacing("com.example.app", with: "com.example.other")
    #expect(try second.ask("POST", "/v1/jobs", key: admin, body: other).status == 202)
    let message = try #require(try first.takeJobs().last)
    let sequence = try JSONDecoder().decode(Job.self, from: Data(message.body)).sequence ?? 0
    #expect(sequence > newer, "\(sequence)")
  }

  @Test func numbersGrow_atWhicheverGateway() throws {
    let redis = try RedisServer()
    let first = try GatewayWorld("sequence", redisURL: redis.url)
    // Nearly a second off until Redis has told its time.
    let second = try GatewayWorld("sequence", redisURL: redis.url, prefix: first.prefix, millisecondsAhead: -900)
    let start = Int64(Date().timeIntervalSince1970 * 1_000_000)
    var ids: [String] = []
    for round in 0..<10 {
      let world = round % 2 == 0 ? first : second
      let line = ["a", "b"].map { "\(round)-\($0)" }
      let answer = try world.ask("POST", "/v1/jobs", body: job(line[0]))
      #expect(answer.status == 202, "\(answer.body)")
      let lines = (0..<3).map { job("\(line[1])-\($0)") }
      let many = try world.ask(
        "POST", "/v1/jobs", headers: ["Content-Type: application/x-ndjson"], body: lines.joined(separator: "\n"))
      #expect(many.status == 202 && !many.body.contains("errors"), "\(many.body)")
      ids += [line[0]] + (0..<3).map { "\(line[1])-\($0)" }
    }
    let jobs = try take(first)
    let numbers = ids.compactMap { jobs[$0]?.sequence }
    #expect(numbers.count == ids.count && zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 }, "\(numbers)")
    #expect((numbers.first ?? 0) >= start, "Unix microseconds")
    let others = ids.allSatisfy { id in
      let body = jobs[id]?.body ?? ""
      return body
        == job(id).replacing("{\"id\"", with: "{\"sequence\":\(jobs[id]?.sequence ?? 0),\"id\"", maxReplacements: 1)
    }
    #expect(others, "all else is as it was")

    // Of whom order means nothing, and who has a number, nothing is changed.
    for (id, members) in [("plain", ""), ("own", #""collapse_id":"c","sequence":3,"#)] {
      #expect(try first.ask("POST", "/v1/jobs", body: job(id, members)).status == 202)
      #expect(try take(first)[id]?.body == job(id, members))
    }

    // Without Redis the clock goes on, and no request waits long.
    redis.stop()
    var last = numbers.last ?? 0
    for round in 0..<3 {
      let begin = ContinuousClock.now
      #expect(try first.ask("POST", "/v1/jobs", body: job("alone-\(round)")).status == 202)
      #expect(begin.duration(to: .now) < .seconds(4))
      let number = try #require(try take(first)["alone-\(round)"]?.sequence)
      #expect(number > last)
      last = number
    }
    let warning = "numbered by this gateway's clock."
    #expect(first.process.lines.count { $0.contains(warning) } == 1, "\(first.process.log)")
    let metrics = try first.ask("GET", "/metrics").body
    #expect(metrics.contains("\nherald_gateway_numbered_locally_total 3\n"), "\(metrics)")
    try redis.start()
    let isMended = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 200) {
      _ = try? first.ask("POST", "/v1/jobs", body: job("mended"))
      return first.process.log.contains("Redis numbers them again; ") ? true : nil
    }
    #expect(isMended == true, "\(first.process.log)")
  }
}
