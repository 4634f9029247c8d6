import PushCore
import PushIO

/// The gate's commands, written once: for a job only digits and hashes are overwritten.
struct RedisScriptCommands {
  /// EVALSHA of the admission script: without a rate, then by the rate's number without and with a collapse id.
  private var unrated: Admit
  private var rated: [Admit]
  private var collapsing: [Admit]
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

  fileprivate struct Admit {
    var command: RedisCommand
    var answered: Key
    var dead: Key
    var rate: Key
    var charge: Int
    var registeredAt: Int
    /// Where the collapse id's parts stand.
    var collapse: (key: Key, hash: Int, firstSeen: Int, isReturning: Int)?

    /// `rate`: the number that tells rates of one device apart.
    init(prefix: String, digest: [UInt8], limit: RateLimit?, rate: Int, collapseMilliseconds: Int64?) {
      command = RedisCommand()
      command.begin(argumentCount: collapseMilliseconds == nil ? 10 : 14)
      command.append("EVALSHA")
      command.append(digest)
      command.append(collapseMilliseconds == nil ? "3" : "4")
      answered = Key(appendingTo: &command, prefix: prefix, kind: "d", hasIdentifier: true)
      dead = Key(appendingTo: &command, prefix: prefix, kind: "x", hasIdentifier: false)
      self.rate = Key(
        appendingTo: &command, prefix: prefix, kind: rate == 0 ? "r" : "r\(rate)", hasIdentifier: false)
      var collapseKey: (Key, Int)?
      if collapseMilliseconds != nil {
        let key = Key(appendingTo: &command, prefix: prefix, kind: "c" + Admit.zeros, hasIdentifier: false)
        collapseKey = (key, command.bytes.count - 2 - Admit.zeros.utf8.count)
      }
      charge = command.appendPlaceholder(count: 8)
      registeredAt = command.appendPlaceholder(count: 16)
      command.append(limit?.intervalMicroseconds ?? 0)
      command.append(limit?.toleranceMicroseconds ?? 0)
      if let collapseMilliseconds, let (key, hash) = collapseKey {
        let firstSeen = command.appendPlaceholder(count: 16)
        command.append(collapseMilliseconds)
        collapse = (key, hash, firstSeen, command.appendPlaceholder(count: 1))
      }
    }

    /// As many digits as a hash of 64 bits has.
    private static let zeros = "00000000000000000000"

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
      if let collapse {
        collapse.key.copyDevice(from: answered, in: &command.bytes)
        command.overwrite(request.collapse, at: collapse.hash, digits: 20)
        command.overwrite(UInt64(max(0, request.firstSeen)), at: collapse.firstSeen, digits: 16)
        command.overwrite(request.isReturning ? 1 : 0, at: collapse.isReturning, digits: 1)
      }
    }
  }

  /// `digest`: SHA-1 of `RedisScript.admit` as the server gave it.
  init(digest: [UInt8], settings: RedisSharedStateSettings) {
    prefix = settings.prefix
    outcomeSeconds = settings.outcomeSeconds
    deadSeconds = settings.deadSeconds
    limits = settings.limits
    tightMilliseconds = settings.tightMilliseconds
    unrated = Admit(prefix: prefix, digest: digest, limit: nil, rate: 0, collapseMilliseconds: nil)
    rated = []
    collapsing = []
    for number in 0..<limits.count {
      let limit = limits[UInt8(number)]
      rated.append(
        Admit(prefix: prefix, digest: digest, limit: limit, rate: number, collapseMilliseconds: nil))
      collapsing.append(
        Admit(
          prefix: prefix, digest: digest, limit: limit, rate: number,
          collapseMilliseconds: settings.collapseMilliseconds))
    }
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
    if !request.isRated {
      unrated.fill(request)
      return connection.send(unrated.command, tag: 0)
    }
    let rate = Int(request.rate)
    if request.collapse == 0 {
      rated[rate].fill(request)
      return connection.send(rated[rate].command, tag: 0)
    }
    collapsing[rate].fill(request)
    return connection.send(collapsing[rate].command, tag: 0)
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
    request.device.writeText(into: &tightenCommand.bytes, at: key.device)
    return connection.send(tightenCommand, tag: 0)
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
