import PushCore
import PushCredentials
import PushIO

/// What all pools of a lane share, handed to them while they work.
struct APNsContext {
  /// An answer, with what `apply` needs to know of the request behind it.
  struct Answered {
    var answer: PushAnswer
    /// Where the request went out.
    var pool: Int
    var place: Int
    /// Which connection it was at that place.
    var connectionSerial: UInt32
    var tokenSerial: UInt32
    var pauseKey: PauseKey

    /// The place of its (credential, environment) among all.
    var scope: Int { pool / Credentials.poolKinds }
    /// The credential's place.
    var credentialPlace: Int { Credentials.place(of: PoolIndex(UInt16(pool))) }
  }

  /// Device tokens that were refused, by hash; a newer one takes the place of an older one.
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

  /// Devices that APNs said got too much (429), by hash: each is left alone for a while, twice as long with each further
  /// refusal. Of two devices with one place the later counts.
  struct Slowed {
    private struct Entry {
      var hash: UInt64 = 0
      var until = Instant(nanoseconds: 0)
      var milliseconds: Int64 = 0
    }

    static let firstMilliseconds: Int64 = 1000
    static let longestMilliseconds: Int64 = 60_000
    private static let count = 1024

    /// Empty until the first refusal, which most lanes never see.
    private var entries: [Entry] = []

    /// How long the device is left alone yet; nil: it is not.
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

  /// How many notices wait for somebody to log them.
  private static let noticesMaximum = 64

  let loop: EventLoop
  let configuration: APNsPushServiceConfiguration
  var requests = RequestTable()
  /// Answers that wait to be reported: never more than what is in flight.
  var answers = RingBuffer<Answered>(growingFrom: 64)
  var counters = APNsCounters()
  var clock = ClockState()
  var badTokens = BadTokens()
  var slowed = Slowed()
  /// Hashes of channels that APNs does not know any more, until the service looks.
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

/// Writes the requests of all pools to one host, one after the other.
final class APNsSharedWriter {
  var requests: APNsRequestWriter

  init(authority: String) {
    requests = APNsRequestWriter(authority: authority)
  }
}
