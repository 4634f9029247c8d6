import Foundation
import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// An outcome of a job for an audience, or of one of its devices.
struct AudienceOutcome: Decodable {
  struct To: Decodable { let device: String? }
  let job: String?
  let outcome: String
  let detail: String?
  let to: To?
  let parent: String?
  let summary: [String: Int]?
  let cancelled: Bool?
  let ambiguous: Bool
  let meta: [String: String]?

  private enum CodingKeys: String, CodingKey {
    case job = "job_id"
    case parent = "parent_id"
    case outcome, detail, to, summary, cancelled, ambiguous, meta
  }
}

/// A worker's world with a registry that tests fill.
final class AudienceWorld {
  let world: WorkerWorld
  let registry: AudienceRegistry
  private(set) var outcomes: [AudienceOutcome] = []

  init(_ name: String, redis: RedisServer? = nil) throws {
    let url = try redis?.url ?? RedisServer.shared().url
    world = try WorkerWorld(name, redisURL: url)
    registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
  }

  func publish(_ id: String, to: String, more: String = "", routingKey: String = "bulk") throws {
    try world.publish(
      """
      {"version":1,"id":"\(id)","app":"com.example.app","push_type":"alert","to":\(to),\(more)\
      "payload":{"aps":{"alert":{"title":"Hello"}}},"meta":{"campaign":"42"}}
      """, routingKey: routingKey)
  }

  @discardableResult
  func take() throws -> [AudienceOutcome] {
    for message in try world.outside.drain(world.outcomesQueue) {
      outcomes.append(try JSONDecoder().decode(AudienceOutcome.self, from: Data(message.body)))
    }
    return outcomes
  }

  /// The outcome of an audience, once it is there.
  func waitForEnd(
    of id: String, seconds: Int = 60, _ location: SourceLocation = #_sourceLocation
  ) throws -> AudienceOutcome {
    let end = ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 100) {
      (try? take())?.first { $0.job == id }
    }
    return try #require(end, "\(id) did not end", sourceLocation: location)
  }

  /// Does what the expansion consumer does before it publishes the only page of a job.
  func prepare(_ id: String, ordinals: [UInt32], epoch: UInt64 = 0, fingerprints: [UInt32] = []) throws {
    let body =
      #"{"id":"\#(id)","app":"com.example.app","push_type":"alert","to":{"users":["u"]},"payload":{"aps":{"alert":"x"}}}"#
    let opening = try registry.wait {
      registry.store.open(
        registry.job(id), ExpansionCursor(), openMaximum: 9, isDryRun: false, metadata: MessageMetadata(),
        body: Array(body.utf8), then: $0)
    }
    #expect(opening == .evaluate(from: 0))
    let fixed = try registry.wait {
      registry.store.fix(
        registry.job(id), step: 0, pages: [PageOrdinals(ordinals, epoch: epoch, fingerprints: fingerprints)],
        counted: 0, next: nil,
        ordinals: 10, then: $0)
    }
    #expect(fixed?.pages == 0..<1)
  }

  func publishPage(of id: String, ordinals: [UInt32], epoch: UInt64 = 0, fingerprints: [UInt32] = []) throws {
    let digits = ordinals.map(String.init).joined(separator: ",")
    let text = String(decoding: DeviceFingerprints.text(of: fingerprints), as: UTF8.self)
    let more = text.isEmpty ? "" : #","fingerprints":"\#(text)""#
    let to = #"{"page":0,"ordinals":[\#(digits)],"epoch":\#(epoch)\#(more)}"#
    try publish("\(id)/0", to: to, more: #""parent_id":"\#(id)","#)
  }

  /// Waits until a counter is above 0.
  func waitForMetric(_ name: String) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) {
      guard let body = world.admin("/metrics")?.body, body.contains("\(name) "), !body.contains("\(name) 0\n") else {
        return nil
      }
      return true
    } ?? false
  }

  func children(of id: String) -> [AudienceOutcome] { outcomes.filter { $0.parent == id } }

  func jobs(_ arguments: String...) throws -> ChildProcess.Output { try world.herald(["jobs"] + arguments) }

  /// The output of `herald jobs show --json`.
  func show(_ id: String) throws -> [String: Any] {
    let output = try jobs("show", id, "--json")
    return try JSONSerialization.jsonObject(with: Data(output.output.utf8)) as? [String: Any] ?? [:]
  }

  func waitForState(_ state: String, of id: String, devices: Int = 0) -> Bool {
    ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) {
      let shown = try? show(id)
      return shown?["state"] as? String == state && (shown?["devices"] as? Int ?? 0) >= devices ? true : nil
    } ?? false
  }
}
