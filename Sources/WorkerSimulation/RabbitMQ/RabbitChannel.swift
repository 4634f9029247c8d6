/// The server's state of a channel.
final class RabbitChannel {
  enum Phase {
    /// Its first frame came and must open the channel.
    case starting
    case open
    /// The server closed it and waits for close-ok. Until then, consumers keep their deliveries.
    case closing
  }

  /// What the next frame must be.
  enum Assembly {
    case method
    case header(RabbitIncoming)
    case body(RabbitIncoming)
  }

  /// A delivery that the client has not settled.
  struct Unsettled {
    let tag: UInt64
    let consumer: RabbitConsumer
    let id: Int
    let at: Int64
  }

  /// A publish without a confirm.
  struct Unconfirmed {
    let number: UInt64
    let message: RabbitMessage
    /// Queues that have not accepted or refused it.
    var openQueues: Int
    var isRefused: Bool
    /// When to send the confirm.
    var dueAt: Int64
  }

  /// A consumer that was requested and has not started.
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
  /// The last `basic.qos`; applies to consumers that start after it.
  var prefetch = 0
  var hasGlobalPrefetch = false
  var consumers: [RabbitConsumer] = []
  /// Requested consumers that start a little later.
  var starts: [Start] = []
  /// The queue that an empty queue name means.
  var lastQueue: [UInt8] = []
  private(set) var unsettled: [Unsettled] = []
  private var nextTag: UInt64 = 1
  var isConfirming = false
  private(set) var unconfirmed: [Unconfirmed] = []
  private var nextPublish: UInt64 = 1
  /// When to send the next confirm.
  private(set) var nextConfirmAt = Int64.max

  /// A client with more has no publish window.
  private static let unconfirmedMaximum = 1_000_000

  init(number: UInt16, session: RabbitSession, now: Int64) {
    self.number = number
    self.session = session
    openedAt = now
  }

  // MARK: - Deliveries

  /// Assigns a delivery tag. A delivery without acknowledgements leaves nothing to settle.
  func delivered(id: Int, to consumer: RabbitConsumer, now: Int64) -> UInt64 {
    let tag = nextTag
    nextTag += 1
    if !consumer.needsNoAck { unsettled.append(Unsettled(tag: tag, consumer: consumer, id: id, at: now)) }
    return tag
  }

  /// Settles the deliveries that a tag covers. Returns them, oldest first; nil: the tag is unknown.
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

  /// Numbers a publish that `openQueues` queues must accept or refuse.
  func published(_ message: RabbitMessage, openQueues: Int) -> UInt64 {
    precondition(unconfirmed.count < RabbitChannel.unconfirmedMaximum, "too many unconfirmed publishes")
    let number = nextPublish
    nextPublish += 1
    unconfirmed.append(
      Unconfirmed(number: number, message: message, openQueues: openQueues, isRefused: false, dueAt: .max))
    return number
  }

  /// Records a queue's answer. Returns whether the confirm is decided: all queues accepted, or this one refused.
  func answered(_ number: UInt64, isRefused: Bool) -> Bool {
    guard let index = index(of: number), unconfirmed[index].dueAt == .max, !unconfirmed[index].isRefused else {
      return false
    }
    unconfirmed[index].openQueues -= 1
    if isRefused { unconfirmed[index].isRefused = true }
    return isRefused || unconfirmed[index].openQueues <= 0
  }

  /// Schedules the confirm of a publish.
  func confirm(_ number: UInt64, at due: Int64) {
    guard let index = index(of: number) else { return }
    unconfirmed[index].dueAt = due
    nextConfirmAt = min(nextConfirmAt, due)
  }

  /// Removes and returns the publishes whose confirm is due.
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

/// A publish whose content is still arriving.
struct RabbitIncoming {
  let exchange: [UInt8]
  let routingKey: [UInt8]
  let isMandatory: Bool
  let isImmediate: Bool
  var properties: [UInt8] = []
  var body: [UInt8] = []
  /// Bytes of the body that are missing; negative if more came than announced.
  var remaining: Int64 = 0
}

/// A publish that waits for a queue's answer.
struct RabbitPublish {
  let channel: RabbitChannel
  let number: UInt64
}
