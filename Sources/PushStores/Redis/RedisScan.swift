package import PushIO

extension RedisClient {
  /// A value of several elements.
  package enum Collection: String, Sendable {
    case hash = "HSCAN"
    case set = "SSCAN"
    case sortedSet = "ZSCAN"
  }

  /// The number of elements that Redis is asked for at once.
  private static let scanCount = "1000"

  /// Reads a value part by part, so that no reply outgrows this client's limits. An element may come twice; one that is added or removed
  /// meanwhile may be missing.
  /// - Parameter each: receives a part: members; of a hash each field and its value; of a sorted set each member and its score.
  package func scan(
    _ kind: Collection, _ key: String, each: @escaping ([RedisReply]) -> Void,
    then: @escaping (Result<Void, Failure>) -> Void
  ) {
    scan(kind, key, cursor: "0", each, then)
  }

  private func scan(
    _ kind: Collection, _ key: String, cursor: String, _ each: @escaping ([RedisReply]) -> Void,
    _ then: @escaping (Result<Void, Failure>) -> Void
  ) {
    call([kind.rawValue, key, cursor, "COUNT", RedisClient.scanCount], key: key) { [weak self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let reply):
        guard case .array(let parts) = reply, parts.count == 2, let next = parts[0].text,
          case .array(let values) = parts[1], kind == .set || values.count % 2 == 0
        else { return then(.failure(Failure(text: "\(key): unexpected reply to \(kind.rawValue)"))) }
        each(values)
        if next == "0" { then(.success(())) } else { self?.scan(kind, key, cursor: next, each, then) }
      }
    }
  }
}
