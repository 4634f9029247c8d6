import PushCore
import PushIO

/// The admissions that one turn of a lane asks of a Redis server: one call of `RedisScript.admit`.
///
/// Names and asks are written in wire format, into separate buffers, because a script takes all its keys before all its arguments. The
/// constant parts are templates; a job's digits and hashes are written over them.
struct RedisAdmissionCall {
  typealias Entry = RedisAdmissionQueue.Entry

  /// Not sent yet.
  private(set) var entries: [Entry] = []

  private let format: RedisAdmissionFormat
  private var names: [UInt8] = []
  private var asks: [UInt8] = []
  private var command = RedisCommand()

  init(format: RedisAdmissionFormat) {
    self.format = format
  }

  mutating func append(_ entry: Entry) {
    let request = entry.request
    let name = names.count + format.nameDevice
    names.append(contentsOf: format.name)
    var nameSpan = names.mutableSpan
    request.device.writeText(into: &nameSpan, at: name)
    let isOrdered = request.isOrdered
    let comesAgain =
      isOrdered || request.mayHaveEnded || request.takeover != .none || request.earlierClaim != 0
      || request.isDropped && request.collapse != 0
    let hasReceipt = comesAgain || request.collapse != 0
    let ask = asks.count + RedisAdmissionFormat.askHead
    asks.append(
      contentsOf: isOrdered
        ? format.askInOrder : comesAgain ? format.askAgain : hasReceipt ? format.askWithReceipt : format.ask)
    let rule =
      request.claim == 0
      ? RedisAdmissionFormat.over
      : request.isRated ? format.limits.number(of: request.rule) : RedisAdmissionFormat.unrated
    var span = asks.mutableSpan
    span[ask] = rule
    span.store(littleEndian: request.jobName, at: ask + 1)
    span.store(littleEndian: request.claim, at: ask + 9)
    span.store(littleEndian: Double(request.registeredAt).bitPattern, at: ask + 13)
    if hasReceipt {
      span.store(littleEndian: request.collapse, at: ask + 21)
      span.store(littleEndian: Double(request.enqueuedAt).bitPattern, at: ask + 29)
    }
    if comesAgain {
      span.store(littleEndian: request.earlierClaim, at: ask + 37)
      span[ask + 41] =
        (request.isReturning ? 1 : 0) | request.takeover.rawValue << 1 | (request.isDropped ? 8 : 0)
        | (request.isRedelivered ? 16 : 0) | (request.hasAsked ? 32 : 0)
      span.store(littleEndian: Double(request.publishedAt).bitPattern, at: ask + 42)
    }
    if isOrdered {
      span.store(littleEndian: Double(request.order.earliest).bitPattern, at: ask + 50)
      span.store(littleEndian: Double(request.order.latest).bitPattern, at: ask + 58)
    }
    entries.append(entry)
  }

  /// Sends the appended admissions; the reply's tag is their number. false: the connection accepts nothing, and they are still here.
  mutating func send(on connection: RedisConnection) -> Bool {
    command.begin(argumentCount: 4 + entries.count * 2)
    command.append("EVALSHA")
    command.append(format.digest)
    command.append(Int64(entries.count))
    command.append(encoded: names)
    command.append(encoded: asks)
    command.append(format.settings)
    return connection.send(command, tag: UInt64(entries.count))
  }

  mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    names.removeAll(keepingCapacity: true)
    asks.removeAll(keepingCapacity: true)
  }
}

/// What all calls of the admission script share.
struct RedisAdmissionFormat {
  /// The script's SHA-1, from the server.
  let digest: [UInt8]
  /// An argument with the key's name, and the offset of the device's text in it.
  let name: [UInt8]
  let nameDevice: Int
  let ask: [UInt8]
  /// For a job with a collapse id.
  let askWithReceipt: [UInt8]
  /// For a copy that comes again.
  let askAgain: [UInt8]
  /// For a job with a collapse id whose producer said how new it is, whether it comes again or not.
  let askInOrder: [UInt8]
  let limits: RateLimits
  let settings: [UInt8]

  /// Instead of a rule's number: a broadcast channel has no rate.
  static let unrated: UInt8 = 255
  /// Instead of a rule's number: the job's time is over.
  static let over: UInt8 = 254
  /// Bytes of an argument before an ask: `$21`, `$37`, `$42` or `$58`, and the end of the line.
  static let askHead = 5

  init(digest: [UInt8], settings: RedisAdmissionStoreSettings) {
    self.digest = digest
    let device = String(repeating: "0", count: TargetKey.textCount)
    let text = "\(settings.prefix){\(device)}"
    name = Array("$\(text.utf8.count)\r\n\(text)\r\n".utf8)
    nameDevice = name.count - 3 - TargetKey.textCount
    ask = Self.argument(count: 21)
    askWithReceipt = Self.argument(count: 37)
    askAgain = Self.argument(count: 50)
    askInOrder = Self.argument(count: 66)
    limits = settings.limits
    var bytes: [UInt8] = []
    for seconds in [
      settings.collapseMilliseconds / 1000, settings.outcomeSeconds, settings.claimSeconds, settings.orderWaitSeconds,
    ] {
      Self.append(Double(seconds).bitPattern, to: &bytes)
    }
    for rule in settings.limits.rules {
      Self.append(Double(rule.limit?.intervalMicroseconds ?? 0).bitPattern, to: &bytes)
      Self.append(Double(rule.limit?.toleranceMicroseconds ?? 0).bitPattern, to: &bytes)
      Self.append(rule.stateName, to: &bytes)
    }
    self.settings = bytes
  }

  private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
    for shift in stride(from: 0, to: number.bitWidth, by: 8) {
      bytes.append(UInt8(truncatingIfNeeded: number >> shift))
    }
  }

  private static func argument(count: Int) -> [UInt8] {
    Array("$\(count)\r\n".utf8) + Array(repeating: 0, count: count) + Array("\r\n".utf8)
  }
}
