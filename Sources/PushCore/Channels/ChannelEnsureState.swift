/// Gets one name its one channel, even if many workers of the fleet ask at once.
///
/// The worker that takes the name's lock writes an intent, creates the channel and stores it under the lock. The others wait and find it.
/// If an intent is left over (its worker died, or APNs' answer was lost), `ChannelRecovery` decides first. Events in, actions out; the
/// registry carries them out.
package struct ChannelEnsureState: Sendable {
  /// Bounds of one `ensure`.
  package struct Timing: Hashable, Sendable {
    /// The lock's lifetime if its owner does not renew it; longer than a request to APNs.
    package var lockMilliseconds: Int64
    /// After this time, a create that was begun has been carried out, or never will be.
    package var settleMilliseconds: Int64
    /// How long to wait for other workers, and for their unfinished creates.
    package var patienceMilliseconds: Int64

    package init(requestMilliseconds: Int64, patienceMilliseconds: Int64 = 60_000) {
      // A request waits for a connection before it has its own time.
      settleMilliseconds = 2 * requestMilliseconds + 1_000
      lockMilliseconds = settleMilliseconds + 4_000
      self.patienceMilliseconds = patienceMilliseconds
    }
  }

  /// What the caller asks for.
  package enum Wish: Hashable, Sendable {
    /// The channel with this name, whoever created it.
    case ensure(StoragePolicy)
    /// A new channel. A channel that an earlier delivery of this request created counts as new.
    case create(StoragePolicy, request: String)
    /// Only look for the channel of an unfinished create; create nothing.
    case recover
  }

  /// What Redis knows about the name.
  package enum Look: Hashable, Sendable {
    case found(ChannelID, ChannelEntry)
    case lockedByOther
    /// The lock is ours; an earlier create is unfinished. `redisNow`: Unix milliseconds by Redis' clock.
    case unfinished(ChannelIntent, redisNow: Int64)
    /// The lock is ours, and our intent is written.
    case begun(count: Int)
    /// The lock is ours; the number of channels is unknown.
    case uncounted
    /// The app has its maximum of channels; the lock was released.
    case full(count: Int)
    /// There is no intent and no channel; the lock was released. Only for `recover`.
    case nothing
  }

  package enum Stored: Hashable, Sendable {
    case stored
    case lockLost
    /// Another name has the channel, or it is being deleted.
    case taken
  }

  /// How the channel was created.
  package enum Origin: Hashable, Sendable {
    case found, created
    /// An earlier create made it, but its answer was lost.
    case adopted
  }

  package struct Result: Hashable, Sendable {
    package var id: ChannelID
    package var entry: ChannelEntry
    package var origin: Origin

    package init(id: ChannelID, entry: ChannelEntry, origin: Origin) {
      self.id = id
      self.entry = entry
      self.origin = origin
    }
  }

  package enum Action: Hashable, Sendable {
    /// Look up the name in Redis, and take its lock. → `looked`
    case look
    /// → `waited`
    case wait(milliseconds: Int64)
    /// List the channels at APNs, and store their number. → `counted`
    case count
    /// Store the channels at APNs that the registry does not know in our intent. → `noted`
    case note
    /// List the channels, and find the `candidates` with this policy. → `searched`
    case search(StoragePolicy)
    /// → `created`
    case create(StoragePolicy)
    /// Store the channel under the lock, which removes intent and lock. → `stored`
    case store(ChannelID, ChannelEntry, isNew: Bool)
    /// Remove the intent. `strays`: also remember the new channels as somebody else's. → `cleared`
    case clear(strays: Bool)
    /// Delete a channel that is not needed, unless it has a name; then end with the result.
    case discard(ChannelID, Result)
    /// Release the lock, and end with this failure. `clearsIntent`: surely nothing was created.
    case fail(ChannelRegistryFailure, clearsIntent: Bool, holdsLock: Bool)
    case done(Result)
    /// For `recover`: nothing was found.
    case nothing
  }

  private let name: ChannelName
  private let scope: AppScope
  private let wish: Wish
  private let timing: Timing
  private let limit: ChannelLimit
  private let deadline: Instant
  private var backoff = Backoff(initialMilliseconds: 40, maximumMilliseconds: 1_000)
  /// We created it, but lost the lock before we stored it.
  private var inHand: (id: ChannelID, entry: ChannelEntry)?
  private var origin = Origin.created
  private var holdsLock = false
  private var wantedStorage: StoragePolicy
  /// Of the unfinished create that is looked into: what was at APNs before it; nil: not known.
  private var before: [ChannelID]?

  package init(
    _ name: ChannelName, in scope: AppScope, _ wish: Wish, timing: Timing, limit: ChannelLimit, now: Instant
  ) {
    self.name = name
    self.scope = scope
    self.wish = wish
    self.timing = timing
    self.limit = limit
    deadline = now.adding(milliseconds: timing.patienceMilliseconds)
    switch wish {
    case .ensure(let storage), .create(let storage, _): wantedStorage = storage
    case .recover: wantedStorage = .none
    }
  }

  /// The storage policy in our intent.
  package var storage: StoragePolicy { wantedStorage }
  package var mayCreate: Bool { wish != .recover }

  // MARK: - Events

  package mutating func looked(_ look: Look, now: Now, random: UInt64) -> Action {
    switch look {
    case .found(let id, let entry):
      holdsLock = false
      return found(id, entry)
    case .lockedByOther:
      holdsLock = false
      return wait(backoff.failed(random: random), now)
    case .unfinished(let intent, let redisNow):
      holdsLock = true
      if let inHand { return store(inHand.id, inHand.entry) }
      let rest = intent.begunAt &+ timing.settleMilliseconds &- redisNow
      // The lock is ours and must not expire meanwhile: each look renews it.
      if rest > 0 { return wait(min(rest + 1, timing.lockMilliseconds / 3), now) }
      // It may be another activity's, whose phones would show this one's state: another one is made.
      if name.isOfActivity { return .clear(strays: false) }
      before = intent.before
      return .search(intent.storage)
    case .begun(let count):
      holdsLock = true
      if let inHand { return store(inHand.id, inHand.entry) }
      guard limit.level(count) != .full else { return failFull(count) }
      // Whatever became of it, nobody adopts it.
      return name.isOfActivity ? .create(wantedStorage) : .note
    case .uncounted:
      holdsLock = true
      if let inHand { return store(inHand.id, inHand.entry) }
      return .count
    case .full(let count):
      holdsLock = false
      return .fail(.full(scope, count: count, maximum: limit.maximum), clearsIntent: false, holdsLock: false)
    case .nothing:
      holdsLock = false
      return .nothing
    }
  }

  package func waited() -> Action { .look }
  package func counted() -> Action { .look }
  package func cleared() -> Action { .look }

  /// - Parameter isStored: false: the lock was lost.
  package mutating func noted(isStored: Bool, now: Now, random: UInt64) -> Action {
    if isStored { return .create(wantedStorage) }
    holdsLock = false
    return wait(backoff.failed(random: random), now)
  }

  /// Those that the unfinished create may have made.
  /// - Parameter unknown: channels that the registry does not know.
  package func candidates(_ unknown: [ChannelID]) -> [ChannelID] {
    guard let before else { return [] }
    let known = Set(before)
    return unknown.filter { !known.contains($0) }
  }

  /// - Parameters:
  ///   - candidates: those with the intent's storage policy.
  ///   - intents: every unfinished create of that policy.
  package mutating func searched(
    candidates: [ChannelID], intents: [ChannelIntent], storage: StoragePolicy, redisNow: Int64, now: Now,
    random: UInt64
  ) -> Action {
    let settled = redisNow &- timing.settleMilliseconds
    let candidates = self.candidates(candidates)
    switch ChannelRecovery.decide(candidates: candidates, intents: intents, settled: settled) {
    case .wait: return wait(backoff.failed(random: random), now)
    case .create: return .clear(strays: false)
    case .undecided: return .clear(strays: true)
    case .adopt(let id):
      origin = .adopted
      return store(id, entry(storage, now))
    }
  }

  package mutating func created(_ id: ChannelID, now: Now) -> Action {
    origin = .created
    return store(id, entry(wantedStorage, now))
  }

  package mutating func createFailed(_ failure: ChannelFailure, now: Now) -> Action {
    if failure.isAmbiguous { return wait(min(timing.settleMilliseconds, timing.lockMilliseconds / 3), now) }
    if failure.isLimitReached { return failFull(limit.maximum) }
    return .fail(.apns(failure), clearsIntent: true, holdsLock: holdsLock)
  }

  /// A list or a read at APNs failed.
  package func lookFailed(_ failure: ChannelFailure) -> Action {
    .fail(.apns(failure), clearsIntent: false, holdsLock: holdsLock)
  }

  package mutating func stored(_ stored: Stored, now: Now, random: UInt64) -> Action {
    guard let inHand else { preconditionFailure("something was stored") }
    switch stored {
    case .stored:
      holdsLock = false
      return found(inHand.id, inHand.entry)
    case .lockLost:
      // An adopted channel belongs to no name yet: the lock's new owner finds it as we did.
      if origin == .adopted { self.inHand = nil }
      holdsLock = false
      return wait(backoff.failed(random: random), now)
    case .taken:
      self.inHand = nil
      return wait(backoff.failed(random: random), now)
    }
  }

  /// Redis failed.
  package func redisFailed(_ text: String) -> Action {
    .fail(.redis(text), clearsIntent: false, holdsLock: holdsLock)
  }

  // MARK: - Ends

  private func found(_ id: ChannelID, _ entry: ChannelEntry) -> Action {
    let isOurs = inHand?.id == id
    let result = Result(id: id, entry: entry, origin: isOurs ? origin : .found)
    if let inHand, !isOurs { return .discard(inHand.id, result) }
    if let failure = conflict(id, entry, isOurs: isOurs) {
      return .fail(failure, clearsIntent: false, holdsLock: false)
    }
    return .done(result)
  }

  /// Why the existing channel is not what was asked for; nil if it is.
  package func conflict(_ id: ChannelID, _ entry: ChannelEntry, isOurs: Bool) -> ChannelRegistryFailure? {
    switch wish {
    case .recover: return nil
    case .create(_, let request):
      if !isOurs, entry.request?.hasBytes(of: request) != true { return .exists(name, id) }
    case .ensure: break
    }
    guard let storage = entry.storage, storage != wantedStorage else { return nil }
    return .storageDiffers(name, id, has: storage, wanted: wantedStorage)
  }

  private mutating func store(_ id: ChannelID, _ entry: ChannelEntry) -> Action {
    inHand = (id, entry)
    return .store(id, entry, isNew: origin == .created)
  }

  private func entry(_ storage: StoragePolicy, _ now: Now) -> ChannelEntry {
    var entry = ChannelEntry(storage: storage, createdAt: now.unixMilliseconds, name: name)
    if case .create(_, let request) = wish { entry.request = request }
    return entry
  }

  private func failFull(_ count: Int) -> Action {
    .fail(.full(scope, count: count, maximum: limit.maximum), clearsIntent: true, holdsLock: holdsLock)
  }

  private func wait(_ milliseconds: Int64, _ now: Now) -> Action {
    guard now.monotonic.adding(milliseconds: milliseconds) < deadline else {
      return .fail(
        .timedOut(name, milliseconds: timing.patienceMilliseconds), clearsIntent: false, holdsLock: holdsLock)
    }
    return .wait(milliseconds: milliseconds)
  }
}
