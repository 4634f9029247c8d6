package import PushCore
import PushIO
import PushLane
package import PushSettings

/// Dead-token marks in Redis, for `herald tokens`.
///
/// Redis knows a device only by a hash of (environment, topic, token), so marks can be looked up but not listed. A token belongs to one
/// topic, but the user need not know which: every topic of the app is looked up.
package struct DeadTokens {
  /// The mark of a token.
  package struct Mark: Sendable {
    package let token: String
    package let topic: String
    /// When the token died, Unix milliseconds.
    package let unregisteredAt: Int64
    /// The mark's remaining lifetime, seconds.
    package let secondsLeft: Int64
  }

  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  private let session: RedisSession
  private let prefix: String
  private let deadSeconds: Int64
  private let app: String
  private let environment: APNsEnvironment

  /// Connects to Redis.
  package init(_ configuration: Configuration, app: String, environment: APNsEnvironment) throws {
    let redis = try RedisConfiguration(url: configuration.redis.url)
    session = try RedisSession(
      configuration: redis, tls: try configuration.redis.tls(redis))
    prefix = configuration.redis.prefix
    deadSeconds = RedisAdmissionStoreSettings().deadSeconds
    self.app = app
    self.environment = environment
  }

  /// The app's topics, the app id first.
  private var topics: [String] {
    var topics: [String] = []
    for type in PushType.named where !topics.contains(app + type.topicSuffix) {
      topics.append(app + type.topicSuffix)
    }
    return topics
  }

  /// The token as jobs have it; throws if it is invalid.
  package static func checked(_ token: String) throws -> String {
    let text = Array(token.utf8)
    guard Hex.classify(text.span) != .invalid, text.count % 2 == 0,
      (Limits.tokenDigitsMinimum...Limits.tokenDigitsMaximum).contains(text.count)
    else {
      throw Failure(
        description: """
          \(token.prefix(80)) is no device token: it has \(Limits.tokenDigitsMinimum) to \(Limits.tokenDigitsMaximum) \
          hexadecimal digits, an even number
          """)
    }
    return token.lowercased()
  }

  /// The marks of these tokens, at most one for each topic of the app.
  package func marks(of tokens: [String]) throws -> [Mark] {
    let places = tokens.flatMap { token in topics.map { (token: token, topic: $0) } }
    let replies = try run(RedisDeviceScript.show, of: places)
    return zip(places, replies).compactMap { place, reply in Mark(place.token, place.topic, reply) }
  }

  /// Removes the tokens' marks; returns them.
  package func forget(_ tokens: [String]) throws -> [Mark] {
    let marks = try marks(of: tokens)
    _ = try run(RedisDeviceScript.forget, of: marks.map { ($0.token, $0.topic) })
    return marks
  }

  /// Marks tokens as dead since this time; of two marks the later one stays. `topic` nil: the app id.
  package func importMarks(_ tokens: [String], topic: String?, unregisteredAt: Int64) throws -> [Mark] {
    let topic = topic ?? app
    let replies = try run(
      RedisDeviceScript.mark, of: tokens.map { ($0, topic) }, arguments: [String(unregisteredAt), String(deadSeconds)])
    return zip(tokens, replies).compactMap { token, reply in Mark(token, topic, reply) }
  }

  package func close() {
    session.close()
  }

  private func key(_ token: String, _ topic: String) -> String {
    let device = TargetKey(environment: environment, topic: topic.utf8.span, token: token.utf8.span)
    var text = [UInt8](repeating: 0, count: TargetKey.textCount)
    var span = text.mutableSpan
    device.writeText(into: &span, at: 0)
    return "\(prefix){\(String(decoding: text, as: UTF8.self))}"
  }

  /// Runs the script for each of them.
  private func run(
    _ script: String, of places: [(token: String, topic: String)], arguments: [String] = []
  ) throws -> [RedisReply] {
    let replies = try session.run(
      places.map { place in
        let key = key(place.token, place.topic)
        return RedisSession.Command(["EVAL", script, "1", key] + arguments, key: key)
      })
    for reply in replies {
      if case .error(let error) = reply { throw Failure(description: "Redis refuses: \(error)") }
    }
    return replies
  }
}

extension DeadTokens.Mark {
  /// nil if the script's reply says that there is none.
  fileprivate init?(_ token: String, _ topic: String, _ reply: RedisReply) {
    guard case .array(let values) = reply, values.count == 2, case .integer(let mark) = values[0],
      case .integer(let seconds) = values[1]
    else { return nil }
    self.init(token: token, topic: topic, unregisteredAt: mark, secondsLeft: seconds)
  }
}
