import PushCore
import PushIO

/// The gate's commands, written once: for a job only digits and hashes are overwritten.
struct RedisScriptCommands {
  /// EVALSHA of the admission script, with a rate and without.
  private var rated: Admit
  private var unrated: Admit
  private var rememberHead: RedisCommand
  private let rememberKey: Key
  private let rememberCount: Int
  private var buryCommand = RedisCommand()
  private var value: [UInt8] = []
  private let prefix: String
  private let outcomeSeconds: Int64
  private let deadSeconds: Int64
  private let outcomeSecondsText: [UInt8]

  /// Asks whether the server takes writes: the key is gone after a second.
  let probe: RedisCommand

  /// Where a key's hashes stand in a command.
  fileprivate struct Key {
    var device: Int
    var apnsID: Int?
  }

  fileprivate struct Admit {
    var command: RedisCommand
    var answered: Key
    var dead: Key
    var rate: Key
    var charge: Int
    var registeredAt: Int

    init(prefix: String, digest: [UInt8], limit: RateLimit?) {
      command = RedisCommand()
      command.begin(argumentCount: 10)
      command.append("EVALSHA")
      command.append(digest)
      command.append("3")
      answered = Key(appendingTo: &command, prefix: prefix, kind: "d", hasIdentifier: true)
      dead = Key(appendingTo: &command, prefix: prefix, kind: "x", hasIdentifier: false)
      rate = Key(appendingTo: &command, prefix: prefix, kind: "r", hasIdentifier: false)
      charge = command.appendPlaceholder(count: 8)
      registeredAt = command.appendPlaceholder(count: 16)
      command.append(limit?.intervalMicroseconds ?? 0)
      command.append(limit?.toleranceMicroseconds ?? 0)
    }

    mutating func fill(_ request: GateRequest) {
      answered.write(request, into: &command.bytes)
      dead.copyDevice(from: answered, in: &command.bytes)
      rate.copyDevice(from: answered, in: &command.bytes)
      var name = RateState.chargeName(request.apnsID)
      let start = charge
      var span = command.bytes.mutableSpan
      for offset in 0..<8 {
        span[start + offset] = UInt8(truncatingIfNeeded: name)
        name >>= 8
      }
      command.overwrite(UInt64(max(0, request.registeredAt)), at: registeredAt, digits: 16)
    }
  }

  /// `digest`: SHA-1 of `RedisScript.admit` as the server gave it.
  init(prefix: String, digest: [UInt8], limit: RateLimit?, outcomeSeconds: Int64, deadSeconds: Int64) {
    self.prefix = prefix
    self.outcomeSeconds = outcomeSeconds
    self.deadSeconds = deadSeconds
    rated = Admit(prefix: prefix, digest: digest, limit: limit)
    unrated = Admit(prefix: prefix, digest: digest, limit: nil)
    rememberHead = RedisCommand()
    rememberHead.begin(argumentCount: 5)
    rememberHead.append("SET")
    rememberKey = Key(appendingTo: &rememberHead, prefix: prefix, kind: "d", hasIdentifier: true)
    rememberCount = rememberHead.bytes.count
    outcomeSecondsText = Array(String(outcomeSeconds).utf8)
    probe = RedisCommand(["SET", prefix + "probe", "1", "PX", "1000"])
  }

  /// Queues the admission script's call. false: the connection takes nothing.
  mutating func sendAdmission(_ request: GateRequest, on connection: RedisConnection) -> Bool {
    if request.isRated {
      rated.fill(request)
      return connection.send(rated.command, tag: 0)
    }
    unrated.fill(request)
    return connection.send(unrated.command, tag: 0)
  }

  /// Queues what remembers an outcome. false: the connection takes nothing.
  mutating func sendMemory(
    _ outcome: RememberedOutcome, of request: GateRequest, on connection: RedisConnection
  ) -> Bool {
    value.removeAll(keepingCapacity: true)
    outcome.encode(into: &value)
    if let mark = outcome.deadMark { return bury(mark, request, on: connection) }
    rememberHead.truncate(to: rememberCount)
    rememberKey.write(request, into: &rememberHead.bytes)
    rememberHead.append(value)
    rememberHead.append("EX")
    rememberHead.append(outcomeSecondsText)
    return connection.send(rememberHead, tag: 0)
  }

  /// With the script's text: a token dies seldom, and nothing waits that could be sent again after a NOSCRIPT.
  private mutating func bury(_ mark: Int64, _ request: GateRequest, on connection: RedisConnection) -> Bool {
    buryCommand.begin(argumentCount: 9)
    buryCommand.append("EVAL")
    buryCommand.append(RedisScript.bury)
    buryCommand.append("2")
    let answered = Key(appendingTo: &buryCommand, prefix: prefix, kind: "d", hasIdentifier: true)
    let dead = Key(appendingTo: &buryCommand, prefix: prefix, kind: "x", hasIdentifier: false)
    buryCommand.append(value)
    buryCommand.append(outcomeSeconds)
    buryCommand.append(mark)
    buryCommand.append(deadSeconds)
    answered.write(request, into: &buryCommand.bytes)
    dead.copyDevice(from: answered, in: &buryCommand.bytes)
    return connection.send(buryCommand, tag: 0)
  }
}

extension RedisScriptCommands.Key {
  /// `<prefix>{<device>}:<kind>[:<apns-id>]`: the braces put all keys of a device into one slot of a cluster.
  fileprivate init(appendingTo command: inout RedisCommand, prefix: String, kind: String, hasIdentifier: Bool) {
    let placeholder = String(repeating: "0", count: GateKey.textCount)
    let head = prefix + "{"
    let middle = "}:" + kind
    let offset = command.append(head + placeholder + middle + (hasIdentifier ? ":" + placeholder : ""))
    device = offset + head.utf8.count
    apnsID = hasIdentifier ? device + GateKey.textCount + middle.utf8.count + 1 : nil
  }

  fileprivate func write(_ request: GateRequest, into bytes: inout [UInt8]) {
    request.device.writeText(into: &bytes, at: device)
    if let apnsID { GateKey.writeText(high: request.apnsID.high, low: request.apnsID.low, into: &bytes, at: apnsID) }
  }

  fileprivate func copyDevice(from other: RedisScriptCommands.Key, in bytes: inout [UInt8]) {
    var span = bytes.mutableSpan
    for offset in 0..<GateKey.textCount { span[device + offset] = span[other.device + offset] }
  }
}
