/// One name's way to its one channel, however many workers of the fleet ask at once.
///
/// Whoever takes the name's lock writes down what it is about to do (the intent), creates, and stores under the lock; the
/// others wait and find. An intent that is left over (its worker died, or APNs' answer was lost) is looked into before
/// anything is made: `ChannelRecovery`. Events in, actions out; the registry does them.
package struct ChannelEnsureState: Sendable {
  /// Bounds of one `ensure`.
  package struct Timing: Hashable, Sendable {
    /// How long the lock lives without its owner; longer than a request to APNs.
    package var lockMilliseconds: Int64
    /// After this time a create that was begun is surely answered or never will be.
    package var settleMilliseconds: Int64
    /// How long to wait for others and for what they left.
    package var patienceMilliseconds: Int64

    package init(requestMilliseconds: Int64, patienceMilliseconds: Int64 = 60_000) {
      // A request waits for a connection before it has its own time.
      settleMilliseconds = 2 * requestMilliseconds + 1_000
      lockMilliseconds = settleMilliseconds + 4_000
      self.patienceMilliseconds = patienceMilliseconds
    }
  }

  /// What is asked for.
  package enum Wish: Hashable, Sendable {
    /// The channel of the name, whoever made it.
    case ensure(StoragePolicy)
    /// A new channel; one that this very request made counts as new.
    case create(StoragePolicy, request: String)
    /// Whatever an unfinished create left; nothing is made.
    case recover
  }

  /// What Redis says of the name.
  package enum Look: Hashable, Sendable {
    case found(ChannelID, ChannelEntry)
    case lockedByOther
    /// The lock is ours; an earlier create is unfinished. `redisNow`: Unix milliseconds by Redis' clock.
    case unfinished(ChannelIntent, redisNow: Int64)
    /// The lock is ours, and our intent is written.
    case begun(count: Int)
    /// The lock is ours; how many channels there are is not known.
    case uncounted
    /// As many as there may be; the lock was given back.
    case full(count: Int)
    /// Nothing is begun and nothing is there; the lock was given back. Of `recover` alone.
    case nothing
  }

  package enum Stored: Hashable, Sendable {
    case stored
    case lockLost
    /// Another name has the channel already, or whoever deletes it.
    case taken
  }

  /// How the channel came to be.
  package enum Origin: Hashable, Sendable {
    case found, created
    /// An earlier create made it, and nobody heard so.
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
    /// Ask Redis for the name, and for its lock. → `looked`
    case look
    /// → `waited`
    case wait(milliseconds: Int64)
    /// List the channels at APNs, store their number. → `counted`
    case count
    /// List the channels, and find those that the registry does not know, of this policy. → `searched`
    case search(StoragePolicy)
    /// → `created`
    case create(StoragePolicy)
    /// Store the channel under the lock, which ends intent and lock. → `stored`
    case store(ChannelID, ChannelEntry, isNew: Bool)
    /// Forget the intent; `strays`: new channels that are not taken for ours, to be remembered as somebody's. → `cleared`
    case clear(strays: Bool)
    /// Delete a channel that was made in vain, unless somebody took it; then it is done.
    case discard(ChannelID, Result)
    /// Give the lock back, and end so. `clearsIntent`: nothing can have been made.
    case fail(ChannelRegistryFailure, clearsIntent: Bool, holdsLock: Bool)
    case done(Result)
    /// Of `recover`: there is nothing.
    case nothing
  }

  private let name: ChannelName
  private let scope: AppScope
  private let wish: Wish
  private let timing: Timing
  private let limit: ChannelLimit
  private let deadline: Instant
  private var backoff = Backoff(initialMilliseconds: 40, maximumMilliseconds: 1_000)
  /// Made by us and not stored: the lock was lost meanwhile.
  private var inHand: (id: ChannelID, entry: ChannelEntry)?
  private var origin = Origin.created
  private var holdsLock = false
  private var wantedStorage: StoragePolicy

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

  /// The storage policy that an intent of ours carries.
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
      // The lock is ours and must not end meanwhile: each look renews it.
      if rest > 0 { return wait(min(rest + 1, timing.lockMilliseconds / 3), now) }
      return .search(intent.storage)
    case .begun(let count):
      holdsLock = true
      if let inHand { return store(inHand.id, inHand.entry) }
      guard limit.level(count) != .full else { return failFull(count) }
      return .create(wantedStorage)
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

  /// - Parameters:
  ///   - candidates: channels that the registry does not know, of the intent's storage policy.
  ///   - intents: every unfinished create of that policy.
  package mutating func searched(
    candidates: [ChannelID], intents: [ChannelIntent], storage: StoragePolicy, redisNow: Int64, now: Now,
    random: UInt64
  ) -> Action {
    let settled = redisNow &- timing.settleMilliseconds
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

  /// A list or a read failed.
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
      // An adopted one is nobody's yet: whoever has the lock now finds it as we did.
      if origin == .adopted { self.inHand = nil }
      holdsLock = false
      return wait(backoff.failed(random: random), now)
    case .taken:
      self.inHand = nil
      return wait(backoff.failed(random: random), now)
    }
  }

  /// Redis failed in between.
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

  /// Why the channel that there is is not what was asked for; nil where it is.
  package func conflict(_ id: ChannelID, _ entry: ChannelEntry, isOurs: Bool) -> ChannelRegistryFailure? {
    switch wish {
    case .recover: return nil
    case .create(_, let request):
      if !isOurs, entry.request != request { return .exists(name, id) }
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
