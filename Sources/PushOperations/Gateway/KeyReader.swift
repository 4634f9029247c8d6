import PushCore
import PushIO
import PushStores

/// Keeps a `KeyRing` up to date, and stores in Redis when keys were last used. Used only on its loop's thread.
final class KeyReader {
  private let loop: EventLoop
  private let redis: RedisClient
  private let names: GatewayRedisKeys
  private let file: APIKeyFile?
  private let ring: KeyRing
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

  private static let readMilliseconds: Int64 = 2_000
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
    if let file {
      do throws(APIKeyFile.Failure) {
        finish(.success(try file.readExisting()))
      } catch {
        finish(.failure("\(error)"))
      }
    } else {
      isReading = true
      redis.call(["HGETALL", names.keys], key: names.keys) { [self] result in
        isReading = false
        switch result {
        case .failure(let failure): finish(.failure("redis: \(failure.text)"))
        case .success(let reply):
          guard let hash = reply.hash else { return finish(.failure("redis: \(names.keys) is not a hash of API keys")) }
          let keys = hash.values.compactMap(APIKey.init(json:))
          finish(
            keys.count == hash.count
              ? .success(keys) : .failure("redis: \(names.keys) has a value that is not an API key"))
        }
      }
    }
  }

  private enum Reading {
    case success([APIKey])
    case failure(String)
  }

  /// After a failure, the old keys stay valid.
  private func finish(_ reading: Reading) {
    switch reading {
    case .success(let keys):
      ring.replace(keys)
      failure = nil
    case .failure(let text):
      if text != failure { notice("API keys: \(text)") }
      failure = text
    }
    let answered = then
    then = []
    for one in answered { one(failure == nil) }
  }

  private func storeUses() {
    nextStoring = loop.now.monotonic.adding(milliseconds: KeyReader.storeMilliseconds)
    let used = ring.takeUsed()
    guard !used.isEmpty else { return }
    redis.call(["HSET", names.used] + used.flatMap { [$0.key, "\($0.value)"] }, key: names.used) { _ in }
  }
}
