/// The server's state of a client's connection: its bytes, the tuned limits, and its channels.
final class RabbitSession {
  enum Phase {
    /// Waits for the protocol header.
    case greeting
    /// Waits for name and password.
    case starting
    case tuning
    case opening
    case running
    /// An alarm is on: no bytes are read. May become running again.
    case blocked
    /// The server closed it and waits for close-ok; or it answered the client's close and waits for the end.
    case closing
    /// Nothing is read or sent any more; the connection ends at `endsAt`.
    case silent
    case gone
  }

  enum Frame {
    case greeting([UInt8])
    /// A range of `input`.
    case frame(kind: UInt8, channel: UInt16, start: Int, end: Int)
    case tooLarge(kind: UInt8, count: Int)
    case unended(kind: UInt8, mark: UInt8)
  }

  let id: SimulatedConnectionID
  var phase = Phase.greeting
  var endsAt: Int64?
  private(set) var input: [UInt8] = []
  private var start = 0
  var writer = RabbitWriter()
  /// It is in the list of connections with unsent bytes.
  var isDirty = false
  var frameMaximum = RabbitFrame.smallestMaximum
  var channelMaximum = 0
  private(set) var channels: [RabbitChannel?] = []
  private(set) var channelCount = 0
  var user = ""
  var wantsCancelNotices = false
  var wantsBlockedNotices = false
  var wantsLoginRefusals = false
  /// Whether `connection.blocked` was sent.
  var wasToldBlocked = false

  /// Nanoseconds; 0: none.
  private(set) var heartbeat: Int64 = 0
  private var sendsAt = Int64.max
  private var listensAt = Int64.max
  private var sentCount = 0
  private var sentCountBefore = -1
  private(set) var receivedCount = 0
  private var receivedCountBefore = 0
  private var silentTurns = 0

  /// A client that sends more while it is blocked would be stopped by a full socket buffer.
  private static let inputMaximum = 256 << 20

  init(_ id: SimulatedConnectionID) {
    self.id = id
  }

  var isUsable: Bool { phase == .running || phase == .blocked }

  // MARK: - Bytes

  func take(_ bytes: [UInt8]) {
    receivedCount += bytes.count
    if start == input.count {
      input = bytes
      start = 0
      return
    }
    precondition(input.count + bytes.count <= RabbitSession.inputMaximum, "a client sends without end")
    if start > 0 {
      input.removeSubrange(0..<start)
      start = 0
    }
    input.append(contentsOf: bytes)
  }

  /// Drops unread input.
  func dropInput() {
    input = []
    start = 0
  }

  /// The next whole frame; nil: more bytes are needed.
  func nextFrame() -> Frame? {
    let available = input.count - start
    if phase == .greeting {
      guard available >= 8 else { return nil }
      defer { start += 8 }
      return .greeting(Array(input[start..<start + 8]))
    }
    guard available >= 7 else { return nil }
    let kind = input[start]
    var size = 0
    for index in start + 3..<start + 7 { size = size << 8 | Int(input[index]) }
    // Like RabbitMQ, allows a frame's overhead above the limit.
    if frameMaximum > 0, size > frameMaximum { return .tooLarge(kind: kind, count: size) }
    guard available >= size + RabbitFrame.overhead else { return nil }
    let channel = UInt16(input[start + 1]) << 8 | UInt16(input[start + 2])
    let (first, end) = (start + 7, start + 7 + size)
    let mark = input[end]
    guard mark == RabbitFrame.endMark else { return .unended(kind: kind, mark: mark) }
    start = end + 1
    return .frame(kind: kind, channel: channel, start: first, end: end)
  }

  // MARK: - Channels

  func channel(_ number: UInt16) -> RabbitChannel? {
    Int(number) < channels.count ? channels[Int(number)] : nil
  }

  func add(_ channel: RabbitChannel) {
    let index = Int(channel.number)
    while channels.count <= index { channels.append(nil) }
    precondition(channels[index] == nil, "a channel is opened twice")
    channels[index] = channel
    channelCount += 1
  }

  func remove(_ channel: RabbitChannel) {
    guard channels[Int(channel.number)] === channel else { return }
    channels[Int(channel.number)] = nil
    channelCount -= 1
  }

  // MARK: - Heartbeats

  /// Starts heartbeats at the tuned interval, seconds. One is due every half interval; a client that is silent for two
  /// intervals is lost.
  func startHeartbeat(seconds: UInt16, now: Int64) {
    heartbeat = Int64(seconds) * 1_000_000_000
    guard heartbeat > 0 else { return }
    sendsAt = now + heartbeat / 2
    listensAt = now + heartbeat
  }

  func didSend(_ count: Int) { sentCount += count }

  /// While nothing is read, heartbeats cannot be missed.
  func pauseListening() { listensAt = .max }

  func resumeListening(now: Int64) {
    guard heartbeat > 0 else { return }
    listensAt = now + heartbeat
    (receivedCountBefore, silentTurns) = (receivedCount, 0)
  }

  func stopHeartbeat() { (sendsAt, listensAt) = (.max, .max) }

  var deadline: Int64 { min(endsAt ?? .max, min(sendsAt, listensAt)) }

  /// Whether to send a heartbeat now.
  func mustSend(now: Int64) -> Bool {
    guard now >= sendsAt else { return false }
    sendsAt = now + heartbeat / 2
    let isIdle = sentCountBefore == sentCount || sentCountBefore < 0
    // Heartbeats do not count as traffic.
    sentCountBefore = isIdle ? sentCount + RabbitFrame.overhead : sentCount
    return isIdle
  }

  /// Whether the client was silent for too long.
  func isLost(now: Int64) -> Bool {
    guard now >= listensAt else { return false }
    listensAt = now + heartbeat
    silentTurns = receivedCount == receivedCountBefore ? silentTurns + 1 : 0
    receivedCountBefore = receivedCount
    return silentTurns >= 2
  }
}
