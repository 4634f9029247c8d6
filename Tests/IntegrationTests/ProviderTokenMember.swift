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
  private let wallClock = WallClock()
  /// How far its clock is ahead of APNs', until it knows that one.
  private let secondsAhead: Mutex<Int64>

  /// - Parameter secondsAhead: how far its clock is ahead; negative: behind.
  init(
    _ url: String, signer: ProviderTokenSigner, prefix: String = "fleet:", seal: TokenSeal? = nil,
    secondsAhead: Int64 = 0
  ) throws {
    let problems = self.problems
    self.secondsAhead = Mutex(secondsAhead)
    store = RedisProviderTokenStore(
      configuration: try RedisConfiguration(url: url), tls: nil, prefix: prefix, seal: seal
    ) { text in problems.add(text) }
    tokens = ProviderTokens(store: store)
    handle = tokens.register(teamID: "TEAM", keyID: "KEY", signer: signer)
    // As Redis would tell it.
    if secondsAhead != 0 {
      try EventLoop(wallClock: wallClock).heard(.redis, unixMilliseconds: now.unixMilliseconds)
    }
    store.start(wallClock)
  }

  private var now: Now {
    Now(
      monotonic: Instant(nanoseconds: Int64(DispatchTime.now().uptimeNanoseconds)),
      unixMilliseconds: Int64(Date().timeIntervalSince1970 * 1000) + secondsAhead.withLock { $0 * 1_000 })
  }

  /// APNs refuses the token of a request because of its `iat`, and tells its time.
  func isRefused() throws -> ProviderTokens.Effect {
    let serial = tokens.current(handle, now: now, random: 0)?.serial
    secondsAhead.withLock { $0 = 0 }
    try EventLoop(wallClock: wallClock).heard(.apnsRefusal, unixMilliseconds: now.unixMilliseconds)
    return tokens.invalid(handle, serial: serial ?? 0, now: now, random: 0)
  }

  /// The token that it uses, once it has one.
  func token(withinMilliseconds milliseconds: Int = 10_000) -> [UInt8]? {
    ChildProcess.poll(timeoutMilliseconds: milliseconds, everyMilliseconds: 5) {
      tokens.current(handle, now: now, random: .random(in: 0 ... .max))?.authorization
    }
  }
}
