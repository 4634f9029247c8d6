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

  @Test func numbersGrow_atWhicheverGateway() throws {
    let redis = try RedisServer()
    let first = try GatewayWorld("sequence", redisURL: redis.url)
    // Less than a second off: gateways correct their clocks by Redis' above that.
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
  }
}
