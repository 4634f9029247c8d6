package import PushCore
package import PushIO

/// The devices of all apps, in Redis, for the whole fleet. `DeviceChange` decides; this reads and writes.
///
/// A change reads the records and sets it needs, decides, and commits in one script that compares the current values
/// with those that were read (optimistic locking). So each device and all its sets change atomically, even if a worker
/// crashes. Changes of one turn go to Redis in batches. This registry applies changes of one device in order.
///
/// Not Sendable: it belongs to its loop's thread, and calls every `then` there. Call `turn` after the Redis client's.
package final class DeviceRegistry {
  package typealias Then<Value> = (Result<Value, DeviceRegistryFailure>) -> Void

  /// Stored changes, and retries because of conflicts.
  package struct Counters: Sendable {
    package var stored: UInt64 = 0
    package var conflicts: UInt64 = 0
  }

  package private(set) var counters = Counters()

  let loop: EventLoop
  let redis: RedisClient
  let prefix: String
  /// Called before and after a registration moves a push-to-start token; where it fails, so does the registration, and comes again. Who registers
  /// devices sets it.
  package var startsMove: (StartMove, AppScope, @escaping Then<Void>) -> Void = { $2(.success(())) }
  private var random: SeededRandom
  private var scopes: [AppScope: DeviceRegistryScope] = [:]

  /// Maximum changes in one script: about three milliseconds of Redis.
  private static let batch = 48
  /// Maximum records that one script reads, and changes: of the largest ones 8 MiB, half of the largest reply.
  private static let batchRecords = 512
  /// Maximum records that an app's scripts read at a time: their replies wait in Redis' memory, before those for other apps.
  private static let readingRecords = 1_024
  /// A change is given up after this many conflicting changes of its device.
  private static let attemptsMaximum = 50
  /// Interval at which the app is added again to the list of apps with devices, in case Redis lost it.
  private static let announceMilliseconds: Int64 = 600_000

  /// - Parameters:
  ///   - prefix: of every key.
  ///   - seed: of the fingerprints that it draws.
  package init(loop: EventLoop, redis: RedisClient, prefix: String, seed: UInt64) {
    self.loop = loop
    self.redis = redis
    self.prefix = prefix
    random = SeededRandom(seed: seed)
  }

  package func keys(_ scope: AppScope) -> RegistryKeys { entry(scope).keys }

  func entry(_ scope: AppScope) -> DeviceRegistryScope {
    if let known = scopes[scope] { return known }
    let new = DeviceRegistryScope(scope, prefix: prefix)
    scopes[scope] = new
    return new
  }

  // MARK: - Changes

  /// Applies a registration.
  /// - Parameter at: Unix milliseconds.
  package func register(
    _ registration: DeviceRegistration, at: Int64, in scope: AppScope, then: @escaping Then<RegistrationAnswer>
  ) {
    enqueue(DeviceTransaction(.id(registration.device), .register(registration, at: at), then: then), in: scope)
  }

  /// Adds a device that was seen in something other than a registration, unless it is known. The new record counts as
  /// older than any registration.
  /// - Parameter at: Unix milliseconds; a forget that is not older wins.
  package func appear(_ device: String, at: Int64, in scope: AppScope, then: @escaping Then<RegistrationAnswer>) {
    let action = DeviceTransaction.Action.register(DeviceRegistration(device: device), at: at)
    enqueue(DeviceTransaction(.id(device), action, isAppearance: true, then: then), in: scope)
  }

  /// A token got a 410: the device loses it, unless it registered the token later. Returns whether a device had it.
  /// - Parameters:
  ///   - ordinal: the device's; nil: the device with this alert token.
  ///   - at: since when the token is unregistered, Unix milliseconds.
  package func lose(
    _ token: [UInt8], ordinal: UInt32? = nil, at: Int64, in scope: AppScope, then: @escaping Then<Bool>
  ) {
    let place = ordinal.map { DeviceTransaction.Place.ordinal($0) } ?? .token(token)
    enqueue(
      DeviceTransaction(place, .lose(token, at: at)) { then($0.map { $0 == .changed }) }, in: scope)
  }

  /// Forgets what a device, or all devices of a user, registered up to `at`: all of those that were not seen later. Registrations up to `at`
  /// are ignored for a day. Returns the number of devices that something was forgotten of.
  package func forget(
    _ subject: ForgottenSubject, at: Int64, in scope: AppScope, then: @escaping Then<Int>
  ) {
    // Mark first: every later registration sees the mark, and the forget sees every earlier one.
    mark(subject, at: at, in: scope) { [self] failure in
      if let failure { return then(.failure(failure)) }
      switch subject {
      case .device(let id):
        enqueue(
          DeviceTransaction(.id(id), .forget(at: at, owner: nil)) { then($0.map { $0 == .changed ? 1 : 0 }) }, in: scope
        )
      case .user(let user):
        forget(user, at: at, in: scope, after: nil, count: 0, then)
      }
    }
  }

  /// Registrations up to `at` are ignored for a day from now on.
  func mark(
    _ subject: ForgottenSubject, at: Int64, in scope: AppScope, then: @escaping (DeviceRegistryFailure?) -> Void
  ) {
    var arguments = RedisArguments()
    arguments.append(secret())
    arguments.append(RegistryKeys.text(of: subject))
    arguments.append(at)
    arguments.append(DeviceLimits.forgottenSeconds)
    run(DeviceScript.mark, arguments, in: scope) { result in
      if case .failure(let failure) = result { then(failure) } else { then(nil) }
    }
  }

  /// For the names of forget marks, if Redis has none.
  private func secret() -> String { Hex.text(random.next(), count: 16) + Hex.text(random.next(), count: 16) }

  /// Whether what this device sent at that time is ignored: it, or its user, was forgotten then or later.
  func isForgotten(_ device: String, at: Int64, in scope: AppScope, then: @escaping Then<Bool>) {
    var arguments = RedisArguments()
    arguments.append(RegistryKeys.text(of: .device(device)))
    run(DeviceScript.marked, arguments, in: scope) { [loop] result in
      let now = loop.now.unixMilliseconds
      then(
        result.map { reply in
          guard let mark = reply.text.flatMap({ Int64($0) }) else { return false }
          // As in `DeviceScript.isLater`.
          let isNow = abs(now - at) < DeviceLimits.aheadToleranceMilliseconds
          return mark >= at && (!isNow || mark <= now + DeviceLimits.aheadToleranceMilliseconds)
        })
    }
  }

  /// Pages through a user's devices, then through those that were the user's.
  private func forget(
    _ user: String, at: Int64, in scope: AppScope, after ordinal: UInt32?, count: Int, _ then: @escaping Then<Int>
  ) {
    members(of: .user(user), after: ordinal, limit: 4 * DeviceRegistry.batch, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let ordinals):
        let owner = DeviceTransaction.Owner(user: user)
        forget(ordinals.map { ($0, owner) }, at: at, in: scope) { [self] result in
          guard case .success(let more) = result else { return then(result) }
          guard let last = ordinals.last else { return forgetFormer(user, at: at, in: scope, from: 0, count, then) }
          forget(user, at: at, in: scope, after: last, count: count + more, then)
        }
      }
    }
  }

  private func forgetFormer(
    _ user: String, at: Int64, in scope: AppScope, from offset: Int, _ count: Int, _ then: @escaping Then<Int>
  ) {
    formerDevices(of: user, at: at, in: scope, from: offset) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let (devices, next)):
        forget(devices.map { ($0.ordinal, .init(user: user, until: $0.until)) }, at: at, in: scope) { [self] result in
          guard case .success(let more) = result, let next else { return then(result.map { count + $0 }) }
          forgetFormer(user, at: at, in: scope, from: next, count + more, then)
        }
      }
    }
  }

  /// Devices that were the user's at that time, and are another's or nobody's since.
  /// - Parameter offset: where the page begins; 0: the first.
  func formerDevices(
    of user: String, at: Int64, in scope: AppScope, from offset: Int,
    then: @escaping Then<(devices: [FormerDevice], next: Int?)>
  ) {
    let limit = 4 * DeviceRegistry.batch
    var arguments = RedisArguments()
    arguments.append(RegistryKeys.text(of: .user(user)))
    arguments.append(loop.now.unixMilliseconds / 1_000 - DeviceLimits.forgottenSeconds)
    arguments.append(offset)
    arguments.append(limit)
    run(DeviceScript.former, arguments, in: scope) { result in
      then(
        result.flatMap { reply in
          guard case .array(let entries) = reply else {
            return .failure(.unreadable("unexpected reply to a script on the devices that were a user's"))
          }
          let devices = entries.compactMap { $0.text.flatMap(FormerDevice.init(text:)) }.filter { at < $0.until }
          return .success((devices, entries.count < limit ? nil : offset + entries.count))
        })
    }
  }

  /// Returns the number of devices that something was forgotten of.
  private func forget(
    _ devices: [(ordinal: UInt32, owner: DeviceTransaction.Owner)], at: Int64, in scope: AppScope,
    then: @escaping Then<Int>
  ) {
    var left = devices.count
    if left == 0 { return then(.success(0)) }
    var forgotten = 0
    var failure: DeviceRegistryFailure?
    for (ordinal, owner) in devices {
      let transaction = DeviceTransaction(.ordinal(ordinal), .forget(at: at, owner: owner)) { result in
        switch result {
        case .success(let answer): if answer == .changed { forgotten += 1 }
        case .failure(let error): failure = error
        }
        left -= 1
        if left == 0 { then(failure.map { .failure($0) } ?? .success(forgotten)) }
      }
      enqueue(transaction, in: scope)
    }
  }

  private func enqueue(_ transaction: DeviceTransaction, in scope: AppScope) {
    let entry = entry(scope)
    if case .id(let id) = transaction.place {
      if entry.queues[ByteText(id)] != nil {
        entry.queues[ByteText(id)]?.append(transaction)
        return
      }
      entry.queues[ByteText(id)] = []
    }
    entry.reading.append(transaction)
  }

  func finish(
    _ transaction: DeviceTransaction, _ result: Result<RegistrationAnswer, DeviceRegistryFailure>,
    _ entry: DeviceRegistryScope
  ) {
    guard case .id(let id) = transaction.place else { return transaction.answer(result) }
    if case .failure = result {
      // Changes behind it fail too: if they were applied first, this one would be older, and lost.
      let behind = entry.queues.removeValue(forKey: ByteText(id)) ?? []
      for transaction in [transaction] + behind { transaction.answer(result) }
      return
    }
    if entry.queues[ByteText(id)]?.isEmpty == false, let next = entry.queues[ByteText(id)]?.removeFirst() {
      entry.reading.append(next)
    } else {
      entry.queues[ByteText(id)] = nil
    }
    transaction.answer(result)
  }

  // MARK: - Turns

  /// Sends the reads and writes queued since the last turn.
  package func turn() {
    for entry in scopes.values {
      while !entry.storing.isEmpty { store(nextBatch(&entry.storing) { $0.commit.recordCount }, entry) }
      while !entry.reading.isEmpty, entry.recordsInFlight < DeviceRegistry.readingRecords {
        read(nextBatch(&entry.reading) { $0.recordsMaximum }, entry)
      }
    }
  }

  /// Removes as many changes as fit in one script: at least one.
  private func nextBatch<Change>(_ changes: inout [Change], records: (Change) -> Int) -> [Change] {
    var count = 0
    var sum = 0
    for change in changes.prefix(DeviceRegistry.batch) {
      sum += records(change)
      if count > 0, sum > DeviceRegistry.batchRecords { break }
      count += 1
    }
    defer { changes.removeFirst(count) }
    return Array(changes.prefix(count))
  }

  private func read(_ transactions: [DeviceTransaction], _ entry: DeviceRegistryScope) {
    let arguments = DeviceFindings.arguments(transactions)
    let records = transactions.reduce(0) { $0 + $1.recordsMaximum }
    entry.recordsInFlight += records
    run(DeviceScript.find, arguments, in: entry.scope) { [self] result in
      entry.recordsInFlight -= records
      switch result {
      // One of them meets what cannot be read: the others are sound.
      case .failure(.unreadable) where transactions.count > 1:
        for transaction in transactions { read([transaction], entry) }
      case .failure(let failure):
        for transaction in transactions { finish(transaction, .failure(failure), entry) }
      case .success(let reply):
        guard let findings = DeviceFindings.parse(reply, of: transactions) else {
          let failure = DeviceRegistryFailure.unreadable("\(entry.keys.tag): does something else use these keys?")
          for transaction in transactions { finish(transaction, .failure(failure), entry) }
          return
        }
        decide(Array(zip(transactions, findings)), entry, asked: [])
      }
    }
  }

  /// Looks up unknown words, then decides again. Fails if a lookup did not find them.
  private func decide(
    _ all: [(transaction: DeviceTransaction, findings: DeviceFindings)], _ entry: DeviceRegistryScope,
    asked: Set<UInt32>
  ) {
    var waiting: [(transaction: DeviceTransaction, findings: DeviceFindings)] = []
    var unknown: Set<UInt32> = []
    for (transaction, findings) in all {
      do throws(DeviceRecordError) {
        decide(transaction, try findings.found(transaction, entry.words), entry)
      } catch {
        if case .unknownWords(let numbers) = error, !asked.isSuperset(of: numbers) {
          waiting.append((transaction, findings))
          unknown.formUnion(numbers)
        } else {
          finish(transaction, .failure(.unreadable(error, entry.keys)), entry)
        }
      }
    }
    guard !waiting.isEmpty else { return }
    learn(unknown, entry) { [self] failure in
      guard let failure else { return decide(waiting, entry, asked: asked.union(unknown)) }
      for (transaction, _) in waiting { finish(transaction, .failure(failure), entry) }
    }
  }

  private func decide(_ transaction: DeviceTransaction, _ found: DeviceTransaction.Found, _ entry: DeviceRegistryScope)
  {
    if case .register = transaction.action, found.device == nil, found.newOrdinal == nil {
      transaction.wantsOrdinal = true
      return again(transaction, entry)
    }
    let fingerprint = UInt32.random(in: 1 ..< .max, using: &random)
    switch transaction.decide(found, now: loop.now.unixMilliseconds, fingerprint: fingerprint, entry.words) {
    case .done(let answer): finish(transaction, .success(answer), entry)
    case .store(let commit):
      // Ordinal 0: Redis may have been emptied.
      if found.newOrdinal == 0 { entry.announcedAt = nil }
      moveStarts(transaction, commit, entry) { entry.storing.append((transaction, commit)) }
    }
  }

  private func again(_ transaction: DeviceTransaction, _ entry: DeviceRegistryScope) {
    transaction.attempts += 1
    counters.conflicts += 1
    guard transaction.attempts < DeviceRegistry.attemptsMaximum else {
      return finish(
        transaction, .failure(.busy("the device changed \(transaction.attempts) times meanwhile")), entry)
    }
    entry.reading.append(transaction)
  }

  private func store(_ all: [(transaction: DeviceTransaction, commit: DeviceCommit)], _ entry: DeviceRegistryScope) {
    let part = withoutClashes(all, entry)
    if part.isEmpty { return }
    announce(entry) { [self] failure in
      if let failure {
        for (transaction, _) in part { finish(transaction, .failure(failure), entry) }
        return
      }
      let arguments = DeviceCommit.arguments(part.map(\.commit), secret: secret())
      run(DeviceScript.commit, arguments, in: entry.scope) { [self] result in
        switch result {
        // As above. What the script stored before it met that is decided again.
        case .failure(.unreadable) where part.count > 1:
          for one in part { store([one], entry) }
        case .failure(let failure):
          for (transaction, _) in part { finish(transaction, .failure(failure), entry) }
        case .success(let reply):
          // A word conflicts with the word table, or the table is full: retry with the word written out.
          if case .bulk(let number) = reply {
            let clashing = part.lazy.flatMap(\.commit.words).first { DeviceCommit.bytes($0.key) == number }
            if let clashing { entry.words.clashed(clashing.value) } else { entry.words.filled() }
            for (transaction, _) in part { again(transaction, entry) }
            return
          }
          guard case .array(let codes) = reply, codes.count == part.count else {
            let failure = DeviceRegistryFailure.unreadable("unexpected reply to a script on \(entry.keys.tag)")
            for (transaction, _) in part { finish(transaction, .failure(failure), entry) }
            return
          }
          for ((transaction, commit), code) in zip(part, codes) { stored(transaction, commit, code, entry) }
        }
      }
    }
  }

  /// Without the changes one of whose words has the number of another word of the same script: they are decided again, with that word
  /// written out.
  private func withoutClashes(
    _ part: [(transaction: DeviceTransaction, commit: DeviceCommit)], _ entry: DeviceRegistryScope
  ) -> [(transaction: DeviceTransaction, commit: DeviceCommit)] {
    var words: [UInt32: String] = [:]
    return part.filter { transaction, commit in
      let clashing = commit.words.filter { !words[$0.key, default: $0.value].hasBytes(of: $0.value) }
      if clashing.isEmpty {
        words.merge(commit.words) { old, _ in old }
        return true
      }
      for word in clashing.values { entry.words.clashed(word) }
      again(transaction, entry)
      return false
    }
  }

  private func stored(
    _ transaction: DeviceTransaction, _ commit: DeviceCommit, _ code: RedisReply, _ entry: DeviceRegistryScope
  ) {
    switch code {
    case .integer(1):
      counters.stored += 1
      for (number, word) in commit.words { entry.words.learned(number, word) }
      // Once more: a start may have gone to the old device meanwhile.
      moveStarts(transaction, commit, entry) { [self] in finish(transaction, .success(commit.answer), entry) }
    case .integer(2):
      transaction.cancel(forgottenAt: nil)
      if transaction.tokenSets.isEmpty {
        finish(transaction, .success(.forgotten), entry)
      } else {
        entry.reading.append(transaction)
      }
    case .integer(let time) where -Limits.unixMillisecondsMaximum..<0 ~= time:
      // Only a registration can come too late.
      guard case .id(let id) = transaction.place else { return again(transaction, entry) }
      mark(.device(id), at: -time, in: entry.scope) { [self] failure in
        if let failure { return finish(transaction, .failure(failure), entry) }
        transaction.cancel(forgottenAt: -time)
        entry.reading.append(transaction)
      }
    case .array(let claims):
      for case .integer(let claim) in claims where claim > 0 && claim <= Int64(commit.claims.count) {
        transaction.outdated.insert(commit.claims[Int(claim) - 1])
      }
      again(transaction, entry)
    case .integer, .bulk, .status, .error, .null:
      again(transaction, entry)
    }
  }

  /// Adds the app to the list of apps with devices, before its first device is stored.
  private func announce(_ entry: DeviceRegistryScope, then: @escaping (DeviceRegistryFailure?) -> Void) {
    let now = loop.now.monotonic
    if let last = entry.announcedAt, now < last.adding(milliseconds: DeviceRegistry.announceMilliseconds) {
      return then(nil)
    }
    let key = RegistryKeys.scopes(prefix: prefix)
    ask(["SADD", key, "\(entry.scope.environment.name):\(entry.scope.app)"], key: key) { result in
      switch result {
      case .success:
        entry.announcedAt = now
        then(nil)
      case .failure(let failure):
        then(failure)
      }
    }
  }

  /// Drops all changes that wait here, unanswered: their owner is gone, and their closures may hold this registry.
  func abandon() {
    for entry in scopes.values { entry.abandon() }
  }

  // MARK: - Asking

  func run(_ script: LuaScript, _ arguments: RedisArguments, in scope: AppScope, then: @escaping Then<RedisReply>) {
    let keys = entry(scope).keys
    redis.run(script, keys: [keys.tag, keys.next], arguments) { then($0.mapError(DeviceRegistryFailure.init)) }
  }

  func ask(_ arguments: [String], last: [UInt8]? = nil, key: String, then: @escaping Then<RedisReply>) {
    redis.call(arguments, last: last, key: key) { then($0.mapError(DeviceRegistryFailure.init)) }
  }
}
