import PushCore
import PushCredentials

/// What a lane checks before it sends a broadcast: it looks up the channel's storage policy, sets the right expiration, and refuses a wrong
/// one.
///
/// The lane has a small table; other channels are looked up in the process's `ChannelPolicyCache`. A broadcast to an unknown channel is
/// held (its ticket; other jobs go on) until the cache answers or `holdMilliseconds` have passed: then APNs judges.
struct BroadcastPolicies {
  enum Decision {
    /// With this `apns-expiration`.
    case send(expiration: Int64)
    /// Its ticket is kept until `nextReleased` returns it.
    case hold
    /// Too many are held: it waits in its pool's queue, so that others' jobs find room.
    case wait
    case refuse(RoutingError)
  }

  private struct Channel {
    /// nil: unknown.
    var storage: StoragePolicy?
    /// The cache is not asked again before this time.
    var until: Instant
    var reportedUseAt: Instant?
    var key: TargetKey
  }

  private struct Held {
    let ticket: Ticket
    let key: TargetKey
    let hash: UInt64
    /// A hash of the channel's app and environment.
    let app: UInt64
    let deadline: Instant
  }

  private let cache: ChannelPolicyCache?
  /// By the hash of the channel's id.
  private var channels: [UInt64: Channel] = [:]
  private var held: [Held] = []
  /// Broadcasts whose channel is now known, or was waited for long enough.
  private var released: [Ticket] = []
  /// Apps, by hash, about whose channels nobody told anything in time: until then APNs judges their broadcasts at once.
  private var silentUntil: [UInt64: Instant] = [:]

  /// Maximum of channels in a lane's table; when it is full it is cleared.
  static let channelsMaximum = 4096
  /// Maximum of broadcasts that wait for a policy, and of one app's: a fraction of a lane's prefetch, for they keep their deliveries.
  static let heldMaximum = 256
  static let heldOfAppMaximum = 64
  static let holdMilliseconds: Int64 = 2_000
  /// Minimum time between two reports of a channel's use.
  static let useMilliseconds: Int64 = 60_000
  private static let knownMilliseconds: Int64 = 600_000
  private static let unknownMilliseconds: Int64 = 10_000

  init(_ cache: ChannelPolicyCache?) {
    self.cache = cache
  }

  mutating func decide(
    _ job: borrowing PushJob, target: Int, ticket: Ticket, now: Now
  ) -> Decision {
    var storage: StoragePolicy?
    if let cache {
      let bytes = job.bytes.span
      let hash = ByteHash.hash(bytes.extracting(job.targets[target].range))
      let key = TargetKey(
        environment: job.environment, topic: bytes.extracting(job.app.range),
        token: bytes.extracting(job.targets[target].range))
      if channels[hash]?.key != key {
        if channels.count >= BroadcastPolicies.channelsMaximum { channels.removeAll(keepingCapacity: true) }
        channels[hash] = Channel(storage: nil, until: now.monotonic, reportedUseAt: nil, key: key)
      }
      tellUse(cache, hash, key, job, target, now)
      if let channel = channels[hash], channel.until > now.monotonic {
        storage = channel.storage
      } else if !look(cache, hash, key, now) {
        // 0 is valid for every channel.
        let app = ByteHash.hash(bytes.extracting(job.app.range)) ^ UInt64(job.environment.rawValue)
        let waits = job.expiration != 0 && silentUntil[app].map { $0 <= now.monotonic } ?? true
        if waits, isFull(app) { return .wait }
        cache.ask(key) { BroadcastPolicies.name(job, target) }
        if waits {
          let deadline = now.monotonic.adding(milliseconds: BroadcastPolicies.holdMilliseconds)
          held.append(Held(ticket: ticket, key: key, hash: hash, app: app, deadline: deadline))
          return .hold
        }
      } else {
        storage = channels[hash]?.storage
      }
    }
    switch BroadcastExpiration.decide(wanted: job.expiration, storage: storage, unixSeconds: now.unixSeconds) {
    case .value(let expiration): return .send(expiration: expiration)
    case .refused(let rule): return .refuse(RoutingError(field: "expiration", detail: rule))
    }
  }

  private func isFull(_ app: UInt64) -> Bool {
    held.count >= BroadcastPolicies.heldMaximum
      || held.count { $0.app == app } >= BroadcastPolicies.heldOfAppMaximum
  }

  /// A broadcast that may be decided now; nil: none.
  mutating func nextReleased() -> Ticket? { released.popLast() }

  /// Releases broadcasts that the cache has answered, or did not answer in time; reports deleted channels to the cache.
  mutating func turn(now: Now, goneChannels: inout [UInt64]) {
    if !goneChannels.isEmpty {
      for hash in goneChannels {
        if let channel = channels.removeValue(forKey: hash) { cache?.gone(channel.key) }
      }
      goneChannels.removeAll(keepingCapacity: true)
    }
    guard !held.isEmpty, let cache else { return }
    var waiters: [Held] = []
    swap(&waiters, &held)
    for waiting in waiters {
      if look(cache, waiting.hash, waiting.key, now) {
        silentUntil[waiting.app] = nil
      } else {
        guard waiting.deadline <= now.monotonic else {
          held.append(waiting)
          continue
        }
        let until = now.monotonic.adding(milliseconds: BroadcastPolicies.unknownMilliseconds)
        silentUntil[waiting.app] = until
        channels[waiting.hash]?.until = until
      }
      released.append(waiting.ticket)
    }
  }

  /// Copies what the cache knows. false: it does not know yet.
  private mutating func look(_ cache: ChannelPolicyCache, _ hash: UInt64, _ key: TargetKey, _ now: Now) -> Bool {
    switch cache.look(key, now: now.monotonic) {
    case nil:
      return false
    case .known(let storage):
      channels[hash]?.storage = storage
      channels[hash]?.until = now.monotonic.adding(milliseconds: BroadcastPolicies.knownMilliseconds)
    case .unknown:
      channels[hash]?.storage = nil
      channels[hash]?.until = now.monotonic.adding(milliseconds: BroadcastPolicies.unknownMilliseconds)
    }
    return true
  }

  private mutating func tellUse(
    _ cache: ChannelPolicyCache, _ hash: UInt64, _ key: TargetKey, _ job: borrowing PushJob, _ target: Int, _ now: Now
  ) {
    if let reported = channels[hash]?.reportedUseAt,
      now.monotonic.milliseconds(since: reported) < BroadcastPolicies.useMilliseconds
    {
      return
    }
    channels[hash]?.reportedUseAt = now.monotonic
    cache.use(key, at: now.unixSeconds) { BroadcastPolicies.name(job, target) }
  }

  private static func name(_ job: borrowing PushJob, _ target: Int) -> ChannelPolicyCache.Channel? {
    let bytes = job.bytes.span
    var app: [UInt8] = []
    for index in job.app.range { app.append(bytes[index]) }
    guard
      let scope = AppScope(app: String(decoding: app, as: UTF8.self), environment: job.environment),
      let id = ChannelID(bytes: bytes.extracting(job.targets[target].range))
    else { return nil }
    return ChannelPolicyCache.Channel(scope: scope, id: id)
  }
}
