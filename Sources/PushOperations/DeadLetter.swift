package import Foundation
package import PushCore
import PushIO
import PushLane

/// A message in the queue of dead letters, as filters and output use it.
package struct DeadLetter: Sendable {
  /// Its position in the queue, from 1.
  package let position: Int
  /// `invalid` or `failed`; for the broker's own dead letters its reason (`delivery_limit`, `rejected`), and `unroutable` for jobs that
  /// were published with an unknown class.
  package let reason: String
  package let detail: String?
  /// An earlier attempt may have reached APNs; a replay keeps this, so that a second acceptance is marked.
  package let isAmbiguous: Bool
  /// The class that a replay publishes it to.
  package let jobClass: JobClass
  /// The queue that a replay publishes to if it is no job but a channel request, a registration, or a part of a job for an audience; nil: it
  /// is a job.
  package let queue: String?
  /// It is a part of a job for an audience: a step, or a report about a page.
  let isPart: Bool
  /// Of a step: how far the job had come.
  let cursor: String?
  /// `transactional`, `bulk`, `channels` or `registrations`.
  package let className: String
  /// nil if the body has none.
  package let app: String?
  package let id: String?
  /// When the producer enqueued it, if it said so.
  package let enqueuedAt: Date?
  package let body: [UInt8]
  /// The body exceeds the maximum that is read: it can be purged, but not replayed.
  package let isOversized: Bool

  /// The fields of a body that is a job, even if other fields are wrong.
  private struct Job: Decodable {
    /// Of a report about a page: of its job.
    var id: String?
    var app: String?

    private enum CodingKeys: String, CodingKey {
      case id, app, settles
    }

    init(_ body: [UInt8]) {
      self = (try? JSONDecoder().decode(Job.self, from: Data(body))) ?? Job()
    }

    private init() {}

    init(from decoder: any Decoder) throws {
      let fields = try decoder.container(keyedBy: CodingKeys.self)
      id = (try? fields.decode(String.self, forKey: .id)) ?? (try? fields.decode(String.self, forKey: .settles))
      app = try? fields.decode(String.self, forKey: .app)
    }
  }

  /// The broker's reason for a message that was delivered too often.
  private static let deliveryLimitReason = "delivery_limit"

  init(_ message: AMQPMessage, position: Int, topology: Topology) {
    self.position = position
    // What Herald publishes is a new message: one with a death is the broker's dead letter, and its other headers are those of a copy. Only
    // the last death made it one: before, it may have expired in a retry queue.
    let deaths = message.deaths.filter { $0.queue != topology.undeliveredQueue && $0.queue != topology.lateQueue }
    let death = deaths.first
    reason =
      death?.reason ?? message.header("x-herald-reason") ?? message.header("x-first-death-reason") ?? "unroutable"
    detail = message.header("x-herald-detail")
    // Workers got this message up to the broker's limit, and may have sent it each time.
    isAmbiguous =
      message.metadata.isAmbiguous || reason == DeadLetter.deliveryLimitReason
      || deaths.contains { $0.reason == DeadLetter.deliveryLimitReason }
    let queue = (death?.queue ?? message.header("x-first-death-queue")).map { topology.queue(ofRetry: $0) }
    let word = message.header("x-herald-class")
    let expansions = JobClass.allCases.first { queue == topology.expansionsQueue($0) }
    // The header first: workers before this version put bulk parts into the queue of transactional ones.
    jobClass =
      JobClass.allCases.first { word == $0.name } ?? expansions
      ?? JobClass.allCases.first { queue == topology.jobsQueue($0) } ?? .transactional
    cursor = message.header("\(RabbitMQPublishProperties.cursorHeader)")
    isPart = cursor != nil || expansions != nil || PageSettlement.isSettlement(message.body.span)
    if word == "channels" || queue == topology.channelsQueue || queue == topology.isolatedChannelsQueue {
      className = "channels"
      self.queue = topology.channelsQueue
    } else if word == "registrations" || queue == topology.registrationsQueue {
      className = "registrations"
      self.queue = topology.registrationsQueue
    } else {
      className = jobClass.name
      self.queue = isPart ? topology.expansionsQueue(jobClass) : nil
    }
    let job = Job(message.body)
    app = job.app
    id = job.id ?? (message.messageID.isEmpty ? nil : message.messageID)
    enqueuedAt = message.metadata.enqueuedAt.map { Date(timeIntervalSince1970: Double($0) / 1000) }
    body = message.body
    isOversized = message.isOversized
  }

  /// The body as text, if it is text.
  package var text: String? { String(validating: body, as: UTF8.self) }

  /// For `--json`; `withBody` adds every byte of it.
  package func jsonLine(withBody: Bool) -> String {
    let object = JSONObject(
      position: position, reason: reason, detail: detail, ambiguous: isAmbiguous, jobClass: className, app: app, id: id,
      enqueuedAt: enqueuedAt.map { Int64($0.timeIntervalSince1970 * 1000) }, bytes: body.count,
      body: withBody ? text : nil, bodyBase64: withBody && text == nil ? Data(body).base64EncodedString() : nil)
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Encoding texts and numbers cannot fail.
    return (try? encoder.encode(object)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
  }

  private struct JSONObject: Encodable {
    let position: Int
    let reason: String
    let detail: String?
    let ambiguous: Bool
    let jobClass: String
    let app: String?
    let id: String?
    let enqueuedAt: Int64?
    let bytes: Int
    let body: String?
    let bodyBase64: String?

    private enum CodingKeys: String, CodingKey {
      case position, reason, detail, ambiguous, app, id, bytes, body
      case jobClass = "class"
      case enqueuedAt = "enqueued_at"
      case bodyBase64 = "body_base64"
    }
  }
}

/// Which dead letters a command applies to; empty: all.
package struct DeadLetterFilter: Equatable, Sendable {
  package var reason: String?
  package var app: String?
  package var id: String?

  package init(reason: String? = nil, app: String? = nil, id: String? = nil) {
    self.reason = reason
    self.app = app
    self.id = id
  }

  package var isEmpty: Bool { self == DeadLetterFilter() }

  package func matches(_ letter: DeadLetter) -> Bool {
    (reason == nil || reason == letter.reason) && (app == nil || app == letter.app)
      && (id == nil || id.map(ByteText.init) == letter.id.map(ByteText.init))
  }
}
