/// Third-party RabbitMQ clients: `amqp-publish` and `amqp-consume` (librabbitmq's tools), and Python's pika, which
/// also shows the properties of messages.
import Foundation

package struct OutsideClient: Sendable {
  /// A message as pika shows it.
  package struct Message: Decodable, Sendable {
    package let routingKey: String
    package let messageID: String?
    package let type: String?
    package let contentType: String?
    package let deliveryMode: Int?
    package let correlationID: String?
    package let headers: [String: String]
    private let encodedBody: String

    private enum CodingKeys: String, CodingKey {
      case routingKey = "routing_key"
      case messageID = "message_id"
      case type, headers
      case contentType = "content_type"
      case deliveryMode = "delivery_mode"
      case correlationID = "correlation_id"
      case encodedBody = "body"
    }

    package var body: [UInt8] { Data(base64Encoded: encodedBody).map(Array.init) ?? [] }
  }

  private let url: String

  /// `url`: without a virtual host; the tools use "/" then.
  package init(port: UInt16, user: String = "guest", password: String = "guest") {
    url = "amqp://\(user):\(password)@127.0.0.1:\(port)"
  }

  /// Publishes one persistent message.
  package func publish(_ body: String, exchange: String, routingKey: String) throws(TestFailure) {
    let options = ["-e", exchange, "-r", routingKey, "-p", "-C", "application/json"]
    _ = try run(tool("amqp-publish", options), input: body)
  }

  /// Publishes many transient messages on one connection. Each is confirmed: a quorum queue may drop the last ones that are not when their
  /// connection closes. No body has a line break.
  /// - Parameter timestamp: Unix seconds; nil: none.
  package func publish(
    _ bodies: [String], exchange: String, routingKey: String, timestamp: Int64? = nil
  ) throws(TestFailure) {
    let time = timestamp.map { "\($0)" } ?? ""
    _ = try run(python("publish", exchange, routingKey, time), input: bodies.joined(separator: "\n"))
  }

  /// The bodies of the queue's first messages, with amqp-consume, each followed by a newline.
  package func consume(_ count: Int, from queue: String) throws(TestFailure) -> String {
    try run(tool("amqp-consume", ["-q", queue, "-c", String(count), "awk", "1"]))
  }

  /// Declares a durable queue and binds it for everything.
  package func bind(queue: String, to exchange: String) throws(TestFailure) {
    _ = try run(python("bind", queue, exchange))
  }

  /// Takes everything out of a queue.
  package func drain(_ queue: String) throws -> [Message] {
    let output = try run(python("drain", queue))
    return try output.split(separator: "\n").map { try JSONDecoder().decode(Message.self, from: Data($0.utf8)) }
  }

  private func tool(_ name: String, _ options: [String]) throws(TestFailure) -> [String] {
    guard let program = ChildProcess.find(name) else {
      throw TestFailure("\(name) (amqp-tools) is not installed; run `make setup`")
    }
    return [program, "-u", url] + options
  }

  /// The system's Python: only it sees the packages of apt-get.
  private func python(_ words: String...) -> [String] { ["/usr/bin/python3", "-c", Self.script, url] + words }

  private func run(_ arguments: [String], input: String? = nil) throws(TestFailure) -> String {
    let result = try ChildProcess.run(arguments, input: input, timeoutMilliseconds: 60_000)
    guard result.status == 0 else {
      throw TestFailure("\(arguments[0]) failed (\(result.status)): \(result.errors.suffix(2_000)); run `make setup`?")
    }
    return result.output
  }

  private static let script = """
    import base64, json, sys, time, pika
    url, verb, queue = sys.argv[1:4]
    connection = pika.BlockingConnection(pika.URLParameters(url + "/%2F"))
    channel = connection.channel()
    if verb == "bind":
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, sys.argv[4], "#")
    elif verb == "publish":
        properties = pika.BasicProperties(timestamp=int(sys.argv[5]) if sys.argv[5] else None)
        channel.confirm_delivery()
        for line in sys.stdin.read().split("\\n"):
            channel.basic_publish(queue, sys.argv[4], line.encode(), properties)
    else:
        # Acknowledged one by one: what comes while the connection closes goes back to the queue. A stream that never pauses has no end.
        end = time.monotonic() + 20
        for method, properties, body in channel.consume(queue, inactivity_timeout=0.5):
            if method is None or time.monotonic() > end:
                break
            channel.basic_ack(method.delivery_tag)
            headers = {name: str(value) for name, value in (properties.headers or {}).items()}
            print(json.dumps({
                "routing_key": method.routing_key, "message_id": properties.message_id, "type": properties.type,
                "content_type": properties.content_type, "delivery_mode": properties.delivery_mode,
                "correlation_id": properties.correlation_id,
                "headers": headers, "body": base64.b64encode(body).decode()}))
    connection.close()
    """
}
