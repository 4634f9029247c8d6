import Foundation
import PushCore
import PushIO
import PushStores

/// Keeps a `KeyRing` up to date, tells in Redis that it is, and stores there when keys were last used. Used only on its loop's thread.
final class KeyReader {
  private let loop: EventLoop
  private let redis: RedisClient
  private let names: GatewayRedisKeys
  private let file: APIKeyFile?
  private let ring: KeyRing
  /// For other processes: the host, the process, and a random number: containers may share both.
  private let name: String
  private let notice: (String) -> Void
  /// Redis has not answered yet.
  private var isReading = false
  /// Wait for the next reading.
  private var waiting: [(Bool) -> Void] = []
  /// Wait for the reading in progress.
  private var then: [(Bool) -> Void] = []
  private var nextReading = Instant(nanoseconds: .min)
  private var earliestReading = Instant(nanoseconds: .min)
  private var nextStoring: Instant
  private var failure: String?
  private var heartbeatFailure: String?
  /// Where the next heartbeat looks for gateways that have long ended.
  private var heartbeatCursor = "0"
  /// When the keys were last read, Unix seconds; nil: not yet.
  private(set) var readAt: Int64?
  /// What was read last, and the key in it; nil: it is none. Only what has changed is decoded.
  private var known: [String: (value: [UInt8], key: APIKey?)] = [:]
  private var content: Data?
  private var digest: Int64 = 0
  private var unreadable: [String] = []
  private var revoked = RevokedKeys()

  static let readMilliseconds: Int64 = 2_000
  /// Minimum time between two reads that unknown keys cause.
  private static let unknownKeyMilliseconds: Int64 = 500
  private static let storeMilliseconds: Int64 = 5_000

  /// - Parameter notice: receives an error when it first occurs.
  init(
    loop: EventLoop, redis: RedisClient, names: GatewayRedisKeys, file: APIKeyFile?, ring: KeyRing,
    notice: @escaping (String) -> Void
  ) {
    self.loop = loop
    self.redis = redis
    self.names = names
    self.file = file
    self.ring = ring
    self.notice = notice
    let process = ProcessInfo.processInfo
    name = "\(process.hostName)/\(process.processIdentifier)/\(String(UInt32.random(in: .min ... .max), radix: 36))"
    nextStoring = loop.now.monotonic.adding(milliseconds: KeyReader.storeMilliseconds)
  }

  /// Reads the keys soon. Then tells whether that worked. A reading that has begun may miss the newest keys.
  func readSoon(then: @escaping (Bool) -> Void) {
    waiting.append(then)
    nextReading = min(nextReading, max(loop.now.monotonic, earliestReading))
  }

  func turn() {
    let now = loop.now.monotonic
    if nextStoring <= now { storeUses() }
    guard !isReading, nextReading <= now else { return }
    nextReading = now.adding(milliseconds: KeyReader.readMilliseconds)
    earliestReading = now.adding(milliseconds: KeyReader.unknownKeyMilliseconds)
    (then, waiting) = (waiting, [])
    if let file { read(file) } else { read() }
  }

  /// The gateway ends: nobody waits for it any more.
  func close() { GatewayHeartbeat.remove(name, redis, names) }

  private func read(_ file: APIKeyFile) {
    do throws(APIKeyFile.Failure) {
      let stored = try file.read(since: &content)
      if let stored { digest = stored.digest }
      finish(.success((stored, digest)), .file)
    } catch {
      finish(.failure(Unread(text: "\(error)")), .file)
    }
  }

  private func read() {
    isReading = true
    // Before the keys, on the same connection: what is read may be newer, never older.
    var revision: Int64?
    readRevision { revision = $0 }
    var hash: [String: [UInt8]] = [:]
    redis.scan(.hash, names.keys) { values in
      hash.merge(RedisReply.array(values).hash ?? [:]) { _, newer in newer }
    } then: { [self] result in
      readRevision { [self] after in
        isReading = false
        switch result {
        case .failure(let failure): finish(.failure(Unread(text: "redis: \(failure.text)")), .redis)
        case .success:
          let stored = takeOutRevoked(stored(hash), Set(hash.keys), before: revision, after: after)
          finish(.success((stored, revision ?? 0)), .redis)
        }
      }
    }
  }

  /// The number of the last revocation; nil: that cannot be read, which is no reason not to read the keys.
  private func readRevision(then: @escaping (Int64?) -> Void) {
    redis.call(["GET", names.revision], key: names.revision) { result in
      then((try? result.get()).map { $0.text.flatMap { Int64($0) } ?? 0 })
    }
  }

  private func takeOutRevoked(_ read: StoredKeys, _ ids: Set<String>, before: Int64?, after: Int64?) -> StoredKeys {
    var stored = read
    let returned = revoked.read(ids, before: before, after: after)
    if !returned.isEmpty {
      notice(
        """
        API keys: Redis has keys again that were revoked, as if it was restored to a time before. They stay refused here until this gateway \
        ends; revoke them again with `herald keys revoke`: \(returned.joined(separator: ", "))
        """)
    }
    stored.keys.removeAll { revoked.contains($0.id) }
    return stored
  }

  private func stored(_ hash: [String: [UInt8]]) -> StoredKeys {
    var stored = StoredKeys()
    var read: [String: (value: [UInt8], key: APIKey?)] = [:]
    for (id, value) in hash {
      var one: (value: [UInt8], key: APIKey?) = (value, nil)
      if let before = known[id], before.value == value { one = before } else { one.key = APIKey(id: id, json: value) }
      read[id] = one
      if let key = one.key { stored.keys.append(key) } else { stored.unreadable.append(id) }
    }
    known = read
    stored.unreadable.sort()
    return stored
  }

  private struct Unread: Error {
    let text: String
  }

  /// After a failure, the old keys stay valid.
  /// - Parameter reading: the keys; nil: those that were read last; and their revision.
  private func finish(_ reading: Result<(StoredKeys?, Int64), Unread>, _ store: GatewayHeartbeat.Store) {
    switch reading {
    case .success((let stored, let revision)):
      if let stored {
        ring.replace(stored.keys)
        report(stored.unreadable, store)
      }
      failure = nil
      readAt = loop.now.unixSeconds
      GatewayHeartbeat.send(name, store, revision: revision, cursor: heartbeatCursor, redis, names) { [weak self] in
        self?.told($0)
      }
    case .failure(let unread):
      if unread.text != failure { notice("API keys: \(unread.text)") }
      failure = unread.text
    }
    let answered = then
    then = []
    for one in answered { one(failure == nil) }
  }

  /// `herald keys revoke` does not know of this gateway as long as that fails.
  private func told(_ result: Result<String, RedisClient.Failure>) {
    var failure: String?
    switch result {
    case .success(let cursor): heartbeatCursor = cursor
    case .failure(let error): failure = error.text
    }
    defer { heartbeatFailure = failure }
    guard let failure, failure != heartbeatFailure else { return }
    notice(
      "redis: this gateway cannot tell which API keys it has, so `herald keys revoke` may not wait for it: \(failure)")
  }

  private func report(_ now: [String], _ store: GatewayHeartbeat.Store) {
    defer { unreadable = now }
    guard now != unreadable, !now.isEmpty else { return }
    notice("API keys: \(StoredKeys.text(ofUnreadable: now, store == .file ? file?.path : nil, names))")
  }

  private func storeUses() {
    nextStoring = loop.now.monotonic.adding(milliseconds: KeyReader.storeMilliseconds)
    let used = ring.takeUsed()
    guard !used.isEmpty else { return }
    redis.call(["HSET", names.used] + used.flatMap { [$0.key, "\($0.value)"] }, key: names.used) { _ in }
  }
}

extension APIKey {
  /// A value of the hash of keys; nil: it is not the key with this id, so that deleting the id would not delete the key.
  init?(id: String, json: [UInt8]) {
    self.init(json: json)
    guard self.id == id else { return nil }
  }
}

extension StoredKeys {
  private static let shownMaximum = 5

  /// Says which values are no keys, and what to do.
  /// - Parameter path: of the file; nil: they are in Redis.
  static func text(ofUnreadable unreadable: [String], _ path: String?, _ names: GatewayRedisKeys) -> String {
    path.map { text(ofUnreadable: unreadable, in: "the keys file \($0)") }
      ?? text(
        ofUnreadable: unreadable, in: "redis: \(names.keys)", advice: "delete them with `herald keys revoke ID`")
  }

  /// - Parameter place: what has them.
  static func text(
    ofUnreadable unreadable: [String], in place: String, advice: String = "remove these lines"
  ) -> String {
    let shown = unreadable.prefix(shownMaximum).map { TextTable.printable($0) }.joined(separator: ", ")
    let more = unreadable.count > shownMaximum ? " and \(unreadable.count - shownMaximum) more" : ""
    return "\(place) has values that are no keys, which do not work: \(shown)\(more); \(advice)"
  }
}
