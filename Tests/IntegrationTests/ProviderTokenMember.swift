import Dispatch
import Foundation
import PushCore
import PushCredentials
import PushIO
import PushStores
import Synchronization
import TestSupport

/// The problems that a store reported.
final class ProviderTokenProblems: Sendable {
  private let texts = Mutex<[String]>([])
  func add(_ text: String) { texts.withLock { $0.append(text) } }
  var all: [String] { texts.withLock { $0 } }
}

/// One process of the fleet: its tokens and its store.
final class ProviderTokenMember: Sendable {
  let tokens: ProviderTokens
  let store: RedisProviderTokenStore
  let handle: ProviderTokens.Handle
  let problems = ProviderTokenProblems()

  init(_ url: String, signer: ProviderTokenSigner, prefix: String = "fleet:", seal: TokenSeal? = nil) throws {
    let problems = self.problems
    store = RedisProviderTokenStore(
      configuration: try RedisConfiguration(url: url), tls: nil, prefix: prefix, seal: seal
    ) { text in problems.add(text) }
    tokens = ProviderTokens(store: store)
    handle = tokens.register(teamID: "TEAM", keyID: "KEY", signer: signer)
    store.start()
  }

  private var now: Now {
    Now(
      monotonic: Instant(nanoseconds: Int64(DispatchTime.now().uptimeNanoseconds)),
      unixMilliseconds: Int64(Date().timeIntervalSince1970 * 1000))
  }

  /// The token that it uses, once it has one.
  func token(withinMilliseconds milliseconds: Int = 10_000) -> [UInt8]? {
    ChildProcess.poll(timeoutMilliseconds: milliseconds, everyMilliseconds: 5) {
      tokens.current(handle, now: now, random: .random(in: 0 ... .max))?.authorization
    }
  }
}
