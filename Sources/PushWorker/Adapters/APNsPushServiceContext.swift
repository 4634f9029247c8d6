import PushCore
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
    var topicHash: UInt64
  }

  /// Device tokens that were refused, by hash; a newer one takes the place of an older one.
  struct Suspects {
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

  /// How many notices wait for somebody to log them.
  private static let noticesMaximum = 64

  let loop: EventLoop
  let configuration: APNsPushServiceConfiguration
  var requests = RequestTable()
  var answers = Queue()
  var counters = APNsCounters()
  var clock = ClockState()
  var suspects = Suspects()
  var random: SeededRandom
  private(set) var notices: [APNsNotice] = []
  var lastConnectionSerial: UInt32 = 0

  init(loop: EventLoop, configuration: APNsPushServiceConfiguration, seed: UInt64) {
    self.loop = loop
    self.configuration = configuration
    random = SeededRandom(seed: seed)
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

  /// Answers that wait to be told. Its memory stays; it never holds more than what is in flight.
  struct Queue {
    private var items: [Answered] = []
    private var next = 0

    mutating func append(_ item: Answered) {
      items.append(item)
    }

    mutating func popFirst() -> Answered? {
      guard next < items.count else {
        if next > 0 {
          items.removeAll(keepingCapacity: true)
          next = 0
        }
        return nil
      }
      next += 1
      return items[next - 1]
    }
  }
}
