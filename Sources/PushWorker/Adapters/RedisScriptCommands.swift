import PushCore
import PushIO

/// What the gate tells Redis of a job's end, written once: for a job only digits and hashes are overwritten.
struct RedisScriptCommands {
  private var rememberHead: RedisCommand
  private let rememberKey: Key
  private let rememberCount: Int
  private var buryCommand = RedisCommand()
  private var value: [UInt8] = []
  private let prefix: String
  private let outcomeSeconds: Int64
  private let deadSeconds: Int64
  private let outcomeSecondsText: [UInt8]
  private var tightenCommand = RedisCommand()
  private let limits: RateLimits
  private let tightMilliseconds: Int64

  /// Asks whether the server takes writes: the key is gone after a second. In a cluster, which has no key for each node,
  /// only whether it answers.
  let probe: RedisCommand
  let ping = RedisCommand(["PING"])
  let asking = RedisCommand(["ASKING"])

  /// Where a key's hashes stand in a command.
  fileprivate struct Key {
    var device: Int
    var apnsID: Int?
  }

  init(settings: RedisSharedStateSettings) {
    prefix = settings.prefix
    outcomeSeconds = settings.outcomeSeconds
    deadSeconds = settings.deadSeconds
    limits = settings.limits
    tightMilliseconds = settings.tightMilliseconds
    rememberHead = RedisCommand()
    rememberHead.begin(argumentCount: 5)
    rememberHead.append("SET")
    rememberKey = Key(appendingTo: &rememberHead, prefix: prefix, kind: "d", hasIdentifier: true)
    rememberCount = rememberHead.bytes.count
    outcomeSecondsText = Array(String(outcomeSeconds).utf8)
    probe = RedisCommand(["SET", prefix + "probe", "1", "PX", "1000"])
  }

  /// Queues what leaves the device alone for a while. false: the connection takes nothing.
  mutating func sendTightening(_ request: GateRequest, on connection: RedisConnection) -> Bool {
    tightenCommand.begin(argumentCount: 5)
    tightenCommand.append("EVAL")
    tightenCommand.append(RedisScript.tighten)
    tightenCommand.append("1")
    let kind = request.rate == 0 ? "r" : "r\(request.rate)"
    let key = Key(appendingTo: &tightenCommand, prefix: prefix, kind: kind, hasIdentifier: false)
    tightenCommand.append((limits[request.rate]?.toleranceMicroseconds ?? 0) + tightMilliseconds * 1000)
    key.write(request, into: &tightenCommand.bytes)
    return connection.send(tightenCommand, tag: 1)
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
    return connection.send(rememberHead, tag: 1)
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
    dead.write(request, into: &buryCommand.bytes)
    return connection.send(buryCommand, tag: 1)
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
    var span = bytes.mutableSpan
    request.device.writeText(into: &span, at: device)
    if let apnsID { GateKey.writeText(high: request.apnsID.high, low: request.apnsID.low, into: &span, at: apnsID) }
  }
}
