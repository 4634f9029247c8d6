import PushCore
import PushIO

/// What the gate tells Redis of a job's end, written once: for a job only digits and hashes are overwritten.
struct RedisScriptCommands {
  private var rememberHead = RedisCommand()
  private let rememberKey: Int
  private let rememberCount: Int
  /// What is told seldom: the script's text goes with it, and nothing waits that could be sent again after a NOSCRIPT.
  private var rareCommand = RedisCommand()
  /// Kind, count, name, end; behind them the outcome.
  private var record: [UInt8] = [RedisScript.answerKind] + [UInt8](repeating: 0, count: recordHead - 1)
  private static let recordHead = 14
  private let prefix: String
  private let outcomeSeconds: Int64
  private let deadSeconds: Int64
  private let limits: RateLimits
  private let tightMilliseconds: Int64

  /// Asks whether the server takes writes: the key is gone after a second. In a cluster, which has no key for each node,
  /// only whether it answers.
  let probe: RedisCommand
  let ping = RedisCommand(["PING"])
  let asking = RedisCommand(["ASKING"])

  init(settings: RedisSharedStateSettings) {
    prefix = settings.prefix
    outcomeSeconds = settings.outcomeSeconds
    deadSeconds = settings.deadSeconds
    limits = settings.limits
    tightMilliseconds = settings.tightMilliseconds
    rememberHead.begin(argumentCount: 3)
    rememberHead.append("APPEND")
    rememberKey = Self.appendKey(to: &rememberHead, prefix: prefix)
    rememberCount = rememberHead.bytes.count
    probe = RedisCommand(["SET", prefix + "probe", "1", "PX", "1000"])
  }

  /// Queues what leaves the device alone for a while. false: the connection takes nothing.
  mutating func sendTightening(_ request: GateRequest, on connection: RedisConnection) -> Bool {
    begin(RedisScript.tighten, of: request, argumentCount: 3)
    rareCommand.append(Int64(request.rate))
    rareCommand.append((limits[request.rate]?.toleranceMicroseconds ?? 0) + tightMilliseconds * 1000)
    rareCommand.append(deviceSeconds)
    return connection.send(rareCommand, tag: 1)
  }

  /// Queues what remembers an outcome of a job that Redis admitted just now: it has seen to the key. The reply is how many bytes
  /// the key has now. Returns how many of them are the outcome's; nil: the connection takes nothing.
  mutating func sendMemory(
    _ outcome: RememberedOutcome, of request: GateRequest, on connection: RedisConnection, now: Now
  ) -> Int? {
    if outcome.deadMark != nil { return sendLateMemory(outcome, of: request, on: connection, now: now) }
    write(outcome, of: request, now: now)
    rememberHead.truncate(to: rememberCount)
    Self.writeText(of: request.device, into: &rememberHead.bytes, at: rememberKey)
    rememberHead.append(record)
    return connection.send(rememberHead, tag: 1) ? record.count : nil
  }

  /// The same, of a job that nobody admitted lately, or that found its token dead: the key's end is looked at.
  mutating func sendLateMemory(
    _ outcome: RememberedOutcome, of request: GateRequest, on connection: RedisConnection, now: Now
  ) -> Int? {
    write(outcome, of: request, now: now)
    if let mark = outcome.deadMark {
      begin(RedisScript.bury, of: request, argumentCount: 4)
      rareCommand.append(record)
      rareCommand.append(deviceSeconds)
      rareCommand.append(mark)
      rareCommand.append(deadSeconds)
    } else {
      begin(RedisScript.tell, of: request, argumentCount: 2)
      rareCommand.append(record)
      rareCommand.append(deviceSeconds)
    }
    return connection.send(rareCommand, tag: 1) ? record.count : nil
  }

  /// Queues what has a device's key end that was made by an outcome. false: the connection takes nothing.
  mutating func sendEnd(_ request: GateRequest, on connection: RedisConnection) -> Bool {
    rareCommand.begin(argumentCount: 3)
    rareCommand.append("EXPIRE")
    appendKey(of: request)
    rareCommand.append(deviceSeconds)
    return connection.send(rareCommand, tag: 1)
  }

  /// Seconds that a device's key lives after it was told something.
  private var deviceSeconds: Int64 { outcomeSeconds + RedisScript.slackSeconds }

  /// The outcome as `RedisScript` has it. Redis counts whole seconds: it is forgotten up to one later.
  private mutating func write(_ outcome: RememberedOutcome, of request: GateRequest, now: Now) {
    record.removeSubrange(Self.recordHead...)
    outcome.encode(into: &record)
    let ends = UInt32(clamping: now.unixMilliseconds / 1000 + outcomeSeconds + 1)
    var span = record.mutableSpan
    span[1] = UInt8(span.count - 2)
    span.store(littleEndian: request.jobName, at: 2)
    for index in 0..<4 { span[10 + index] = UInt8(truncatingIfNeeded: ends >> UInt32(8 * index)) }
  }

  private mutating func begin(_ script: String, of request: GateRequest, argumentCount: Int) {
    rareCommand.begin(argumentCount: 4 + argumentCount)
    rareCommand.append("EVAL")
    rareCommand.append(script)
    rareCommand.append("1")
    appendKey(of: request)
  }

  private mutating func appendKey(of request: GateRequest) {
    let offset = Self.appendKey(to: &rareCommand, prefix: prefix)
    Self.writeText(of: request.device, into: &rareCommand.bytes, at: offset)
  }

  /// `<prefix>{<device>}`: the braces put all keys of a device into one slot of a cluster. Returns where the device's text belongs.
  private static func appendKey(to command: inout RedisCommand, prefix: String) -> Int {
    let placeholder = String(repeating: "0", count: GateKey.textCount)
    return command.append(prefix + "{" + placeholder + "}") + prefix.utf8.count + 1
  }

  private static func writeText(of device: GateKey, into bytes: inout [UInt8], at offset: Int) {
    var span = bytes.mutableSpan
    device.writeText(into: &span, at: offset)
  }
}
