/// A channel, as the server keeps it.
final class RabbitChannel {
  enum Phase {
    /// Its first frame came, and must be the one that opens it.
    case starting
    case open
    /// The server closed it, and waits for the answer. What consumers hold is theirs until then.
    case closing
  }

  /// What the next frame must be.
  enum Assembly {
    case method
    case header(RabbitIncoming)
    case body(RabbitIncoming)
  }

  /// A delivery that its client did not settle.
  struct Unsettled {
    let tag: UInt64
    let consumer: RabbitConsumer
    let id: Int
    let at: Int64
  }

  /// A publish whose confirm was not sent.
  struct Unconfirmed {
    let number: UInt64
    let message: RabbitMessage
    /// Queues that did not say what they did with it.
    var openQueues: Int
    var isRefused: Bool
    /// When the confirm goes out.
    var dueAt: Int64
  }

  /// A consumer that was asked for.
  struct Start {
    let consumer: RabbitConsumer
    let prefetch: Int
    let isAnswered: Bool
  }

  let number: UInt16
  unowned let session: RabbitSession
  let openedAt: Int64
  var phase = Phase.starting
  var assembly = Assembly.method
  /// What `basic.qos` said last, for consumers that start after it.
  var prefetch = 0
  var hasGlobalPrefetch = false
  var consumers: [RabbitConsumer] = []
  /// Consumers that are asked for, and start a little later.
  var starts: [Start] = []
  /// What an empty queue name means.
  var lastQueue: [UInt8] = []
  private(set) var unsettled: [Unsettled] = []
  private var nextTag: UInt64 = 1
  var isConfirming = false
  private(set) var unconfirmed: [Unconfirmed] = []
  private var nextPublish: UInt64 = 1
  /// When the next confirm goes out.
  private(set) var nextConfirmAt = Int64.max

  /// More would be a client without any window.
  private static let unconfirmedMaximum = 1_000_000

  init(number: UInt16, session: RabbitSession, now: Int64) {
    self.number = number
    self.session = session
    openedAt = now
  }

  // MARK: - Deliveries

  /// Numbers a delivery; nothing is to be settled of one that needs no acknowledgement.
  func delivered(id: Int, to consumer: RabbitConsumer, now: Int64) -> UInt64 {
    let tag = nextTag
    nextTag += 1
    if !consumer.needsNoAck { unsettled.append(Unsettled(tag: tag, consumer: consumer, id: id, at: now)) }
    return tag
  }

  /// The deliveries that a tag means, which are then settled, oldest first; nil: the tag means none.
  func settle(_ tag: UInt64, isMultiple: Bool) -> [Unsettled]? {
    if tag == 0, isMultiple {
      defer { unsettled = [] }
      return unsettled
    }
    var (low, high) = (0, unsettled.count)
    while low < high {
      let middle = (low + high) / 2
      if unsettled[middle].tag < tag { low = middle + 1 } else { high = middle }
    }
    guard low < unsettled.count, unsettled[low].tag == tag else { return nil }
    let range = (isMultiple ? 0 : low)...low
    defer { unsettled.removeSubrange(range) }
    return Array(unsettled[range])
  }

  // MARK: - Confirms

  /// Numbers a publish, which `openQueues` queues must say something about.
  func published(_ message: RabbitMessage, openQueues: Int) -> UInt64 {
    precondition(unconfirmed.count < RabbitChannel.unconfirmedMaximum, "too many unconfirmed publishes")
    let number = nextPublish
    nextPublish += 1
    unconfirmed.append(
      Unconfirmed(number: number, message: message, openQueues: openQueues, isRefused: false, dueAt: .max))
    return number
  }

  /// A queue said what it did with a publish. Returns whether now all is known; a refusal is enough.
  func answered(_ number: UInt64, isRefused: Bool) -> Bool {
    guard let index = index(of: number), unconfirmed[index].dueAt == .max, !unconfirmed[index].isRefused else {
      return false
    }
    unconfirmed[index].openQueues -= 1
    if isRefused { unconfirmed[index].isRefused = true }
    return isRefused || unconfirmed[index].openQueues <= 0
  }

  /// The confirm of a publish goes out then.
  func confirm(_ number: UInt64, at due: Int64) {
    guard let index = index(of: number) else { return }
    unconfirmed[index].dueAt = due
    nextConfirmAt = min(nextConfirmAt, due)
  }

  /// Takes out what is due.
  func takeConfirms(now: Int64) -> [Unconfirmed] {
    guard nextConfirmAt <= now else { return [] }
    let due = unconfirmed.filter { $0.dueAt <= now }
    unconfirmed.removeAll { $0.dueAt <= now }
    nextConfirmAt = unconfirmed.reduce(.max) { min($0, $1.dueAt) }
    return due
  }

  private func index(of number: UInt64) -> Int? {
    var (low, high) = (0, unconfirmed.count)
    while low < high {
      let middle = (low + high) / 2
      if unconfirmed[middle].number < number { low = middle + 1 } else { high = middle }
    }
    return low < unconfirmed.count && unconfirmed[low].number == number ? low : nil
  }
}

/// A publish that is still coming in.
struct RabbitIncoming {
  let exchange: [UInt8]
  let routingKey: [UInt8]
  let isMandatory: Bool
  let isImmediate: Bool
  var properties: [UInt8] = []
  var body: [UInt8] = []
  /// Bytes of the body that are to come; less than none where more came than was announced.
  var remaining: Int64 = 0
}

/// A publish that waits for a queue.
struct RabbitPublish {
  let channel: RabbitChannel
  let number: UInt64
}
