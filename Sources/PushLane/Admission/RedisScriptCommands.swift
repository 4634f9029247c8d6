import PushCore
import PushIO

/// The commands that store a job's end in Redis, written once: for a job only digits and hashes are overwritten.
struct RedisScriptCommands {
  private var rememberHead = RedisCommand()
  private let rememberKey: Int
  private let rememberCount: Int
  private var rareCommand = RedisCommand()
  /// Kind, count, name; the outcome follows.
  private var record: [UInt8] = [RedisScript.answerKind] + [UInt8](repeating: 0, count: recordHead - 1)
  private static let recordHead = 10
  /// SHA-1 of `RedisDeviceScript.tell`.
  private let tellDigest: [UInt8]
  /// `<prefix>{<device>}`: the braces put all keys of a device into one slot of a cluster.
  private let key: [UInt8]
  /// The offset of the device's text in it.
  private let keyDevice: Int
  private let outcomeSeconds: Int64
  private let deadSeconds: Int64
  private let claimSeconds: Int64
  private let tightMilliseconds: Int64

  /// SHA-1 of `RedisScript.probe`.
  private let probeDigest: [UInt8]
  let ping = RedisCommand(["PING"])
  let asking = RedisCommand(["ASKING"])

  init(settings: RedisAdmissionStoreSettings, tellDigest: [UInt8], probeDigest: [UInt8]) {
    self.tellDigest = tellDigest
    self.probeDigest = probeDigest
    key = Array("\(settings.prefix){\(String(repeating: "0", count: TargetKey.textCount))}".utf8)
    keyDevice = settings.prefix.utf8.count + 1
    outcomeSeconds = settings.outcomeSeconds
    deadSeconds = settings.deadSeconds
    claimSeconds = settings.claimSeconds
    tightMilliseconds = settings.tightMilliseconds
    rememberHead.begin(argumentCount: 3)
    rememberHead.append("APPEND")
    rememberKey = rememberHead.append(key) + keyDevice
    rememberCount = rememberHead.bytes.count
  }

  /// Asks whether the server would carry out an admission, on this key.
  func probe(_ key: String) -> RedisCommand {
    RedisCommand(["EVALSHA", String(decoding: probeDigest, as: UTF8.self), "1", key])
  }

  /// Queues the command that stops sending to a device for a while. It is rare, so it contains the script's text and never needs to be
  /// repeated after NOSCRIPT. false: the connection accepts nothing.
  mutating func sendTightening(_ request: AdmissionRequest, on connection: RedisConnection) -> Bool {
    rareCommand.begin(argumentCount: 7)
    rareCommand.append("EVAL")
    rareCommand.append(RedisDeviceScript.tighten)
    rareCommand.append("1")
    appendKey(of: request)
    let name = request.rule.stateName
    rareCommand.append((0..<4).map { UInt8(truncatingIfNeeded: name >> UInt32(8 * $0)) })
    rareCommand.append((request.rule.limit?.toleranceMicroseconds ?? 0) + tightMilliseconds * 1000)
    rareCommand.append(deviceSeconds)
    return connection.send(rareCommand, tag: 1)
  }

  /// Queues the command that stores an outcome of a job that Redis has just admitted: its claim exists, and its key lives as long. The
  /// reply is the key's size in bytes. Returns how many of them are the outcome's; nil: the connection accepts nothing.
  mutating func sendMemory(
    _ outcome: RememberedOutcome, of request: AdmissionRequest, on connection: RedisConnection
  ) -> Int? {
    if outcome.deadMark != nil { return sendLateMemory(outcome, of: request, on: connection) }
    write(outcome, of: request)
    rememberHead.truncate(to: rememberCount)
    Self.writeText(of: request.device, into: &rememberHead.bytes, at: rememberKey)
    rememberHead.append(record)
    return connection.send(rememberHead, tag: 1) ? record.count : nil
  }

  /// The same for a job that was not admitted recently, or whose token is dead: writes the missing parts of its claim.
  mutating func sendLateMemory(
    _ outcome: RememberedOutcome, of request: AdmissionRequest, on connection: RedisConnection
  ) -> Int? {
    write(outcome, of: request)
    rareCommand.begin(argumentCount: 8)
    rareCommand.append("EVALSHA")
    rareCommand.append(tellDigest)
    rareCommand.append("1")
    appendKey(of: request)
    rareCommand.append(record)
    rareCommand.append(deviceSeconds)
    rareCommand.append(outcome.deadMark ?? 0)
    rareCommand.append(deadSeconds)
    return connection.send(rareCommand, tag: 1) ? record.count : nil
  }

  /// Queues the command that stores how a message ended without an answer of APNs: a key of its own, because it is soon forgotten. false: the
  /// connection accepts nothing.
  mutating func sendFate(
    _ outcome: RememberedOutcome, claim: UInt32, of request: AdmissionRequest, on connection: RedisConnection
  ) -> Bool {
    var fate: [UInt8] = []
    Self.append(claim, to: &fate)
    Self.append(Double(outcome.completedAt).bitPattern, to: &fate)
    outcome.encode(into: &fate)
    var name: [UInt8] = []
    Self.append(request.jobName, to: &name)
    rareCommand.begin(argumentCount: 5)
    rareCommand.append("SET")
    let offset = rareCommand.append(key + Array(":f:\(Hex.text(name))".utf8)) + keyDevice
    Self.writeText(of: request.device, into: &rareCommand.bytes, at: offset)
    rareCommand.append(fate)
    rareCommand.append("EX")
    rareCommand.append(Limits.fateSeconds)
    return connection.send(rareCommand, tag: 1)
  }

  private static func append(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
    for shift in stride(from: 0, to: number.bitWidth, by: 8) {
      bytes.append(UInt8(truncatingIfNeeded: number >> shift))
    }
  }

  /// How long a device's key lives after a write, seconds.
  private var deviceSeconds: Int64 { outcomeSeconds + claimSeconds }

  /// The outcome in the format of `RedisScript`.
  private mutating func write(_ outcome: RememberedOutcome, of request: AdmissionRequest) {
    record.removeSubrange(Self.recordHead...)
    outcome.encode(into: &record)
    var span = record.mutableSpan
    span[1] = UInt8(span.count - 2)
    span.store(littleEndian: request.jobName, at: 2)
  }

  private mutating func appendKey(of request: AdmissionRequest) {
    let offset = rareCommand.append(key) + keyDevice
    Self.writeText(of: request.device, into: &rareCommand.bytes, at: offset)
  }

  private static func writeText(of device: TargetKey, into bytes: inout [UInt8], at offset: Int) {
    var span = bytes.mutableSpan
    device.writeText(into: &span, at: offset)
  }
}
