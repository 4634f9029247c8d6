/// A consumer: one `basic.consume` on a channel, from the queue's view.
final class RabbitConsumer {
  enum Status {
    /// Receives messages; may become all others.
    case active
    /// The client cancelled it: it receives nothing more, and stays until its messages are settled.
    case cancelled
    /// The queue removed it: settling its messages has no effect.
    case gone
  }

  let tag: [UInt8]
  unowned let queue: RabbitQueue
  unowned let channel: RabbitChannel
  var needsNoAck: Bool
  var status = Status.active
  /// How many more messages it may receive.
  var credit: Int
  /// It waits for messages in the queue's round-robin.
  var isInRound = false
  /// Messages that it received and did not settle, oldest first.
  private(set) var held: [(id: Int, entry: RabbitEntry)] = []
  private var nextID = 0

  /// The credit that a quorum queue grants for `basic.qos 0`.
  static let unlimitedCredit = 2000

  init(tag: [UInt8], queue: RabbitQueue, channel: RabbitChannel, prefetch: Int, needsNoAck: Bool) {
    self.tag = tag
    self.queue = queue
    self.channel = channel
    self.needsNoAck = needsNoAck
    credit = prefetch == 0 ? RabbitConsumer.unlimitedCredit : prefetch
  }

  /// Reactivates a consumer that was cancelled while it held messages. They count against its new prefetch in a quorum queue. In a classic
  /// one they do not, and settling them even raises it.
  func revive(prefetch: Int, needsNoAck: Bool) {
    status = .active
    self.needsNoAck = needsNoAck
    let granted = prefetch == 0 ? RabbitConsumer.unlimitedCredit : prefetch
    credit = queue.settings.kind == .classic ? granted : max(0, granted - held.count)
  }

  /// Holds a message. Returns its number.
  func hold(_ entry: RabbitEntry) -> Int {
    precondition(credit > 0, "a consumer holds more than it may")
    credit -= 1
    held.append((nextID, entry))
    nextID += 1
    return nextID - 1
  }

  /// Removes and returns the message with this number; nil: there is none, or the queue took it back.
  func release(_ id: Int) -> RabbitEntry? {
    // Numbers ascend, and most are settled in order.
    if let first = held.first, first.id == id { return held.removeFirst().entry }
    var (low, high) = (0, held.count)
    while low < high {
      let middle = (low + high) / 2
      if held[middle].id < id { low = middle + 1 } else { high = middle }
    }
    guard low < held.count, held[low].id == id else { return nil }
    return held.remove(at: low).entry
  }

  /// Removes and returns all held messages, oldest first.
  func releaseAll() -> [RabbitEntry] {
    defer { held = [] }
    return held.map(\.entry)
  }

  /// Holds a message again that was settled before a crash: the queue lost the settlement.
  func holdAgain(_ id: Int, _ entry: RabbitEntry) {
    let index = held.firstIndex { $0.id > id } ?? held.count
    held.insert((id, entry), at: index)
  }

  /// Restores credit for settled messages.
  func regain(_ count: Int) {
    if status == .active { credit += count }
  }
}
