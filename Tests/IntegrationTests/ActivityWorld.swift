import Foundation
import TestSupport
import Testing

/// Helpers for tests of Live Activities through a worker: publish jobs, register update tokens, wait for outcomes.
final class ActivityWorld {
  struct Outcome: Decodable {
    struct To: Decodable {
      let device: String?
      let channel: String?
    }
    let job: String?
    let outcome: String
    let detail: String?
    let pushType: String?
    let topic: String?
    let to: To?
    let activity: String?
    let revision: Int?
    let cause: String?
    let ambiguous: Bool?
    let summary: [String: Int]?
    let attempts: Int?

    private enum CodingKeys: String, CodingKey {
      case job = "job_id"
      case pushType = "push_type"
      case outcome, detail, topic, to, activity, revision, cause, ambiguous, summary, attempts
    }
  }

  static let start = #"""
    {"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{"eta":9},"alert":{"title":"t","body":"b"}}}
    """#

  private let world: WorkerWorld
  /// The outcomes read so far.
  private(set) var outcomes: [Outcome] = []

  init(_ world: WorkerWorld) { self.world = world }

  static func job(_ id: String, _ to: String, _ payload: String, _ more: String = "") -> String {
    #"{"id":"\#(id)","app":"com.example.app","push_type":"liveactivity","to":\#(to),\#(more)"payload":\#(payload)}"#
  }

  func publish(_ id: String, _ to: String, _ payload: String, _ more: String = "") throws {
    try world.publish(ActivityWorld.job(id, to, payload, more), routingKey: "transactional")
  }

  /// Registers the device's update token of `ride-17`, like an app.
  func register(_ device: String, _ token: String) throws {
    let now = Int64(Date().timeIntervalSince1970 * 1000)
    try world.outside.publish(
      """
      {"kind":"activity","at":\(now),"app":"com.example.app","device":"\(device)","activity":"ride-17",\
      "token":"\(token)"}
      """, exchange: "", routingKey: "\(world.prefix).registrations")
  }

  /// Waits for a job's first outcome.
  func end(of id: String, _ location: SourceLocation = #_sourceLocation) throws -> Outcome {
    try ends(of: id, count: 1, location)[0]
  }

  /// Waits for the first outcome of each of these jobs.
  func ends(ofEach ids: [String], _ location: SourceLocation = #_sourceLocation) throws -> [Outcome] {
    var missing = ids
    _ = try ChildProcess.poll(timeoutMilliseconds: 90_000, everyMilliseconds: 100) { () throws -> Bool? in
      try drain()
      let known = Set(outcomes.compactMap(\.job))
      missing = ids.filter { !known.contains($0) }
      return missing.isEmpty ? true : nil
    }
    try #require(
      missing.isEmpty, "no outcomes: \(missing.prefix(20)) of \(ids.count), among \(outcomes.count) outcomes",
      sourceLocation: location)
    let first = Dictionary(outcomes.compactMap { end in end.job.map { ($0, end) } }) { first, _ in first }
    return ids.compactMap { first[$0] }
  }

  func isTold(_ id: String) throws -> Bool {
    try drain()
    return outcomes.contains { $0.job == id }
  }

  private func drain() throws {
    for message in try world.outside.drain(world.outcomesQueue) {
      if let outcome = try? JSONDecoder().decode(Outcome.self, from: Data(message.body)) { outcomes.append(outcome) }
    }
  }

  /// Waits for so many outcomes of a job.
  func ends(of id: String, count: Int, _ location: SourceLocation = #_sourceLocation) throws -> [Outcome] {
    let ends = try ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 100) { () throws -> [Outcome]? in
      try drain()
      let ends = outcomes.filter { $0.job == id }
      return ends.count >= count ? ends : nil
    }
    return try #require(
      ends, "\(id) has not \(count) outcomes: \(outcomes.suffix(20))", sourceLocation: location)
  }
}
