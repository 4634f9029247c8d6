import PushCore
import PushCredentials
import PushIO

/// State that all pools of a lane share; passed to them while they work.
struct APNsContext {
  /// An answer, with what `apply` needs to know of the request behind it.
  struct Answered {
    var answer: PushAnswer
    /// The pool that the request used.
    var pool: Int
    var place: Int
    /// Which connection it was in that place.
    var connectionSerial: UInt32
    var tokenSerial: UInt32
    var pauseKey: PauseKey

    /// The index of its (credential, environment).
    var scope: Int { pool / Credentials.poolKinds }
    /// The credential's index.
    var credentialPlace: Int { Credentials.place(of: PoolIndex(UInt16(pool))) }
  }

  /// Refused device tokens, by a hash of app, topic and token; a newer one replaces an older one in its place.
  struct BadTokens {
    private var hashes: [UInt64] = Array(repeating: 0, count: 8192)
    private var isEmpty = true

    func contains(_ hash: UInt64) -> Bool {
      !isEmpty && hashes[Int(truncatingIfNeeded: hash) & 8191] == hash
    }

    mutating func insert(_ hash: UInt64) {
      isEmpty = false
      hashes[Int(truncatingIfNeeded: hash) & 8191] = hash
    }

    mutating func remove(_ hash: UInt64) {
      if contains(hash) { hashes[Int(truncatingIfNeeded: hash) & 8191] = 0 }
    }
  }

  /// Devices for which APNs answered TooManyRequests (429), by hash. Nothing is sent to each for a while, twice as long after each further
  /// refusal. Of two devices in one place the later one counts.
  struct Slowed {
    private struct Entry {
      var hash: UInt64 = 0
      var until = Instant(nanoseconds: 0)
      var milliseconds: Int64 = 0
    }

    static let firstMilliseconds: Int64 = 1000
    static let longestMilliseconds: Int64 = 60_000
    private static let count = 1024

    /// Empty until the first refusal, which most lanes never get.
    private var entries: [Entry] = []

    /// How long nothing is sent to the device; nil: no wait.
    func waitMilliseconds(_ hash: UInt64, now: Instant) -> Int64? {
      guard !entries.isEmpty, case let entry = entries[place(hash)], entry.hash == hash, now < entry.until else {
        return nil
      }
      return entry.until.milliseconds(since: now) + 1
    }

    mutating func refused(_ hash: UInt64, now: Instant) {
      if entries.isEmpty { entries = Array(repeating: Entry(), count: Slowed.count) }
      let last = entries[place(hash)].hash == hash ? entries[place(hash)].milliseconds : 0
      let next = min(max(last * 2, Slowed.firstMilliseconds), Slowed.longestMilliseconds)
      entries[place(hash)] = Entry(hash: hash, until: now.adding(milliseconds: next), milliseconds: next)
    }

    mutating func accepted(_ hash: UInt64) {
      if !entries.isEmpty, entries[place(hash)].hash == hash { entries[place(hash)] = Entry() }
    }

    private func place(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash) & (Slowed.count - 1) }
  }

  /// Maximum of notices that wait for the log.
  private static let noticesMaximum = 64

  let loop: EventLoop
  let configuration: APNsPushServiceConfiguration
  var requests = RequestTable()
  /// Unreported answers: never more than requests in flight.
  var answers = RingBuffer<Answered>(growingFrom: 64)
  var counters = APNsCounters()
  var clock = ClockState()
  var badTokens = BadTokens()
  var slowed = Slowed()
  /// Hashes of channels that APNs no longer knows, until the service takes them.
  var goneChannels: [UInt64] = []
  var random: SeededRandom
  private(set) var notices: [APNsNotice] = []
  var lastConnectionSerial: UInt32 = 0
  /// By authority.
  private var writers: [String: APNsSharedWriter] = [:]

  init(loop: EventLoop, configuration: APNsPushServiceConfiguration, seed: UInt64) {
    self.loop = loop
    self.configuration = configuration
    random = SeededRandom(seed: seed)
  }

  mutating func writer(for authority: String) -> APNsSharedWriter {
    if let writer = writers[authority] { return writer }
    let writer = APNsSharedWriter(authority: authority)
    writers[authority] = writer
    return writer
  }

  mutating func say(_ notice: APNsNotice) {
    guard notices.count < APNsContext.noticesMaximum else {
      counters.noticesDropped += 1
      return
    }
    notices.append(notice)
  }

  mutating func takeNotice() -> APNsNotice? {
    notices.isEmpty ? nil : notices.removeFirst()
  }
}

/// Writes the requests of all pools to one host, one after another.
final class APNsSharedWriter {
  var requests: APNsRequestWriter

  init(authority: String) {
    requests = APNsRequestWriter(authority: authority)
  }
}
