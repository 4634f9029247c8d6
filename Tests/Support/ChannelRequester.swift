/// A third-party producer (Python's pika) that requests channels through the request queue.
import Foundation

package struct ChannelRequester: Sendable {
  /// A request as it is published.
  package struct Request: Encodable, Sendable {
    package var body: String
    package var correlationID: String?
    /// `mine`: a queue of this client, whose messages are returned; nil: no `reply_to`.
    package var replyTo: String?
    package var messageID: String?
    /// The AMQP timestamp, Unix seconds.
    package var timestamp: Int?
    /// Headers that copies of a request have.
    package var headers: [String: Int64] = [:]

    private enum CodingKeys: String, CodingKey {
      case body, timestamp, headers
      case correlationID = "correlation_id"
      case replyTo = "reply_to"
      case messageID = "message_id"
    }

    package init(
      _ body: String, correlationID: String? = nil, replyTo: String? = "mine", messageID: String? = nil,
      timestamp: Int? = nil, firstSeen: Int64? = nil, deliveries: Int64? = nil
    ) {
      self.timestamp = timestamp
      if let firstSeen { headers["x-herald-first-seen"] = firstSeen }
      if let deliveries { headers["x-herald-deliveries"] = deliveries }
      self.body = body
      self.correlationID = correlationID
      self.replyTo = replyTo
      self.messageID = messageID
    }
  }

  /// An answer as it came.
  package struct Answer: Decodable, Sendable {
    package let correlationID: String?
    package let messageID: String?
    package let type: String?
    package let body: String

    private enum CodingKeys: String, CodingKey {
      case type, body
      case correlationID = "correlation_id"
      case messageID = "message_id"
    }
  }

  private struct Work: Encodable {
    let queue: String
    let expect: Int
    let seconds: Double
    let requests: [Request]
  }

  private let url: String

  package init(port: UInt16) {
    url = "amqp://guest:guest@127.0.0.1:\(port)/%2F"
  }

  /// Publishes the requests, confirmed and persistent, and returns the answers that arrive in its own queue until there
  /// are `expect`, or the time is up.
  package func ask(
    _ requests: [Request], queue: String, expect: Int? = nil, seconds: Double = 30
  ) throws -> [Answer] {
    let wanted = expect ?? requests.count { $0.replyTo == "mine" }
    let work = try JSONEncoder().encode(Work(queue: queue, expect: wanted, seconds: seconds, requests: requests))
    let result = try ChildProcess.run(
      ["/usr/bin/python3", "-c", Self.script, url], input: String(decoding: work, as: UTF8.self),
      timeoutMilliseconds: Int(seconds * 1000) + 20_000)
    guard result.status == 0 else {
      throw TestFailure("pika failed: \(result.errors.suffix(2_000)); run `make setup`?")
    }
    return try result.output.split(separator: "\n").map {
      try JSONDecoder().decode(Answer.self, from: Data($0.utf8))
    }
  }

  private static let script = """
    import json, sys, time, pika
    work = json.load(sys.stdin)
    connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
    channel = connection.channel()
    channel.confirm_delivery()
    mine = channel.queue_declare("", exclusive=True).method.queue
    for request in work["requests"]:
        reply_to = request.get("reply_to")
        channel.basic_publish("", work["queue"], request["body"].encode(), pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=request.get("message_id"),
            correlation_id=request.get("correlation_id"), timestamp=request.get("timestamp"),
            headers=request["headers"] or None,
            reply_to=mine if reply_to == "mine" else reply_to), mandatory=True)
    left, end = work["expect"], time.time() + work["seconds"]
    while left > 0 and time.time() < end:
        for method, properties, body in channel.consume(mine, auto_ack=True, inactivity_timeout=0.5):
            if method is None:
                break
            print(json.dumps({"correlation_id": properties.correlation_id, "message_id": properties.message_id,
                "type": properties.type, "body": body.decode()}), flush=True)
            left -= 1
            if left == 0:
                break
    channel.cancel()
    connection.close()
    """
}
