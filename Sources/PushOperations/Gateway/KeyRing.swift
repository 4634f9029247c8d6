package import PushCore
import PushIO
import Synchronization

/// The API keys as they were last read, for requests on any thread.
package final class KeyRing: Sendable {
  private struct State {
    /// nil: not read yet.
    var keys: [String: APIKey]?
    var rates: [String: RequestRate] = [:]
    /// Key id → last use since the last `takeUsed`, Unix milliseconds.
    var used: [String: Int64] = [:]
  }

  private let state = Mutex(State())

  init() {}

  package var isReady: Bool { state.withLock { $0.keys != nil } }

  package enum Finding: Sendable {
    case found(APIKey)
    /// No key has this id. It may have been created since the last read.
    case unknown
    /// Malformed, or the secret is wrong.
    case invalid
  }

  /// Finds a key by its text and records its use.
  /// - Parameter now: Unix milliseconds.
  package func find(_ text: String, now: Int64) -> Finding {
    guard let parsed = APIKeyText(text) else { return .invalid }
    let hash = SHA256Digest.of(parsed.text.utf8.span)
    return state.withLock { state in
      guard let key = state.keys?[parsed.id] else { return .unknown }
      guard key.matches(hash: hash) else { return .invalid }
      state.used[key.id] = now
      return .found(key)
    }
  }

  /// The key was not revoked since it was found.
  package func isCurrent(_ key: APIKey) -> Bool { state.withLock { $0.keys?[key.id] == key } }

  /// Counts a request against the key's rate; nil: the key has no rate.
  package func take(_ key: APIKey, now: Instant) -> RequestRate.Answer? {
    guard let limit = key.rate else { return nil }
    return state.withLock { state in
      state.rates[key.id, default: RequestRate(limit: limit, now: now)].take(now: now)
    }
  }

  func replace(_ keys: [APIKey]) {
    state.withLock { state in
      let newer = Dictionary(keys.map { ($0.id, $0) }) { $1 }
      state.rates = state.rates.filter { newer[$0.key]?.rate == state.keys?[$0.key]?.rate }
      state.keys = newer
    }
  }

  /// Returns and clears the last uses: key id → Unix milliseconds.
  func takeUsed() -> [String: Int64] {
    state.withLock { state in
      defer { state.used = [:] }
      return state.used
    }
  }
}
