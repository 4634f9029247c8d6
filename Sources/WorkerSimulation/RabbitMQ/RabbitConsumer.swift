/// Who takes a queue's messages: one `basic.consume` on a channel, as the queue knows it.
final class RabbitConsumer {
  enum Status {
    /// It takes messages; may become all others.
    case active
    /// Its client cancelled it: it takes nothing more, and is there until what it holds is settled.
    case cancelled
    /// The queue forgot it: what it still settles changes nothing.
    case gone
  }

  let tag: [UInt8]
  unowned let queue: RabbitQueue
  unowned let channel: RabbitChannel
  var needsNoAck: Bool
  var status = Status.active
  /// Messages that it may still be given.
  var credit: Int
  /// It waits for messages, in the queue's round.
  var isInRound = false
  /// What it was given and did not settle, oldest first.
  private(set) var held: [(id: Int, entry: RabbitEntry)] = []
  private var nextID = 0

  /// What `basic.qos 0` comes to at a quorum queue.
  static let unlimitedCredit = 2000

  init(tag: [UInt8], queue: RabbitQueue, channel: RabbitChannel, prefetch: Int, needsNoAck: Bool) {
    self.tag = tag
    self.queue = queue
    self.channel = channel
    self.needsNoAck = needsNoAck
    credit = prefetch == 0 ? RabbitConsumer.unlimitedCredit : prefetch
  }

  /// It was cancelled with messages in hand, and is asked for again.
  func revive(prefetch: Int, needsNoAck: Bool) {
    status = .active
    self.needsNoAck = needsNoAck
    credit = max(0, (prefetch == 0 ? RabbitConsumer.unlimitedCredit : prefetch) - held.count)
  }

  /// Takes a message into its hand. Returns its number there.
  func hold(_ entry: RabbitEntry) -> Int {
    precondition(credit > 0, "a consumer holds more than it may")
    credit -= 1
    held.append((nextID, entry))
    nextID += 1
    return nextID - 1
  }

  /// What it holds under this number, which it then does not any more; nil: it never did, or the queue took it back.
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

  /// Everything that it holds, oldest first; nothing afterwards.
  func releaseAll() -> [RabbitEntry] {
    defer { held = [] }
    return held.map(\.entry)
  }

  /// Puts what it settled before a crash back into its hand, for the queue never heard of it.
  func holdAgain(_ id: Int, _ entry: RabbitEntry) {
    let index = held.firstIndex { $0.id > id } ?? held.count
    held.insert((id, entry), at: index)
  }

  /// A settled message makes room for another.
  func regain(_ count: Int) {
    if status == .active { credit += count }
  }
}
