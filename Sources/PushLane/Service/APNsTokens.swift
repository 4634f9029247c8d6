import Logging
import PushCore
import PushCredentials
import PushIO

/// The provider token of each credential, as this lane knows it. It is updated when it may have changed, so that a request copies nothing
/// of its credential.
struct APNsTokens {
  /// How often a credential's token is updated if no change is known.
  private static let lookMilliseconds: Int64 = 1_000

  /// By credential: its requests carry a token; nil: there is no credential at this index, or it is revoked.
  private var usesToken: [Bool?]
  /// By credential: the key of its tokens.
  private var handles: [ProviderTokens.Handle?]
  /// By credential: it was used for sending.
  private var isWanted: [Bool]
  /// All keys that were used for sending, also those that a reload removed: they may come back.
  private var wanted: Set<ProviderTokens.Handle> = []
  /// By credential; nil: unknown, or it uses none.
  private var current: [ProviderTokens.Current?]
  private var version: UInt64 = 0
  private var lookedAt: Instant?

  init(_ credentials: Credentials) {
    usesToken = credentials.all.map { $0?.usesToken }
    handles = credentials.all.map { $0?.tokenHandle }
    isWanted = Array(repeating: false, count: credentials.all.count)
    current = Array(repeating: nil, count: credentials.all.count)
  }

  /// For reloaded credentials: all tokens are unknown, and those in use are updated with the next look, also under another name.
  mutating func replace(_ credentials: Credentials) {
    for (place, handle) in handles.enumerated() where isWanted[place] { if let handle { wanted.insert(handle) } }
    usesToken = credentials.all.map { $0?.usesToken }
    handles = credentials.all.map { $0?.tokenHandle }
    current = Array(repeating: nil, count: credentials.all.count)
    while isWanted.count < credentials.all.count { isWanted.append(false) }
    for (place, handle) in handles.enumerated() where handle.map(wanted.contains) == true { isWanted[place] = true }
    lookedAt = nil
  }

  /// The credential sends nothing until the next `replace`.
  mutating func revoke(place: Int) {
    usesToken[place] = nil
    current[place] = nil
  }

  /// Whether the credential's requests carry a token; nil: it sends nothing.
  func usesToken(_ place: Int) -> Bool? { usesToken[place] }

  subscript(place: Int) -> ProviderTokens.Current? { current[place] }

  /// It has its token, or needs none.
  func isReady(_ place: Int) -> Bool { usesToken[place] != true || current[place] != nil }

  /// Once a turn.
  mutating func look(_ credentials: Credentials, now: Now, context: inout APNsContext) {
    if credentials.tokens.version == version, let lookedAt,
      now.monotonic.milliseconds(since: lookedAt) < APNsTokens.lookMilliseconds
    {
      return
    }
    lookedAt = now.monotonic
    for place in current.indices where isWanted[place] && usesToken[place] == true {
      guard let credential = credentials.all[place], let handle = credential.tokenHandle else { continue }
      current[place] = credentials.tokens.current(
        handle, now: context.loop.tokenNow, random: context.random.next(), isKept: true)
      if let failure = credentials.tokens.takeFailure(handle) {
        context.say(
          APNsNotice(level: .error, credential: credential.name, environment: .production, text: failure))
      }
    }
    version = credentials.tokens.version
  }

  /// The first request of a credential makes its token; from then on it is kept young. false: there is none yet, the shared store is being
  /// asked.
  mutating func ask(_ place: Int, _ credentials: Credentials, now: Now, context: inout APNsContext) -> Bool {
    guard !isWanted[place] else { return false }
    isWanted[place] = true
    lookedAt = nil
    look(credentials, now: now, context: &context)
    return current[place] != nil
  }

  /// Applies APNs' answer about a token. Returns what follows for the credential.
  mutating func apply(
    _ advice: Verdict.TokenAdvice, place: Int, serial: UInt32, _ credentials: Credentials, now: Now,
    context: inout APNsContext
  ) -> ProviderTokens.Effect {
    guard let credential = credentials.all[place], case .token(let handle) = credential.authorization else {
      return .none
    }
    let time = context.loop.tokenNow
    let effect =
      switch advice {
      case .keep: ProviderTokens.Effect.none
      case .renew: credentials.tokens.expired(handle, serial: serial, now: time, random: context.random.next())
      case .replaceIfMisdated:
        credentials.tokens.invalid(handle, serial: serial, now: time, random: context.random.next())
      case .keepOlder: credentials.tokens.tooManyUpdates(handle, serial: serial, now: time)
      }
    if effect == .changed || effect == .replaced {
      lookedAt = nil
      look(credentials, now: now, context: &context)
    }
    return effect
  }
}
