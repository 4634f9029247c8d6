import PushCore
import PushIO

/// The admissions that one turn of a lane asks a Redis server for: one call of `RedisScript.admit`.
///
/// Names and asks are written as they go over the wire, each in a buffer of its own, for a script takes all its keys before
/// all its arguments. What is the same for every job stands in templates; a job's digits and hashes are written over them.
struct RedisAdmissions {
  typealias Entry = RedisSharedStateQueue.Entry

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
    let isCopy = request.copy > 0
    let hasReceipt = isCopy || (request.isRated && request.collapse != 0)
    let ask = asks.count + RedisAdmissionFormat.askHead
    asks.append(contentsOf: isCopy ? format.askOfCopy : hasReceipt ? format.askWithReceipt : format.ask)
    var span = asks.mutableSpan
    span[ask] = request.isRated ? request.rate : RedisAdmissionFormat.unrated
    span.store(littleEndian: request.jobName, at: ask + 1)
    span.store(littleEndian: Double(request.registeredAt).bitPattern, at: ask + 9)
    if hasReceipt {
      span.store(littleEndian: request.collapse, at: ask + 17)
      span.store(littleEndian: Double(request.firstSeen).bitPattern, at: ask + 25)
    }
    if isCopy { span.store(littleEndian: Double(request.copy).bitPattern, at: ask + 33) }
    entries.append(entry)
  }

  /// Sends what was appended; the reply's tag is their number. false: the connection takes nothing, and they are still here.
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

/// What all calls of the admission script have in common.
struct RedisAdmissionFormat {
  /// SHA-1 of the script as the server gave it.
  let digest: [UInt8]
  /// An argument with the key's name, and where the device's text stands in it.
  let name: [UInt8]
  let nameDevice: Int
  let ask: [UInt8]
  /// Of a job with a collapse id.
  let askWithReceipt: [UInt8]
  /// Of one that comes back.
  let askOfCopy: [UInt8]
  let settings: [UInt8]

  /// In the place of a rate's number: a broadcast channel has none.
  static let unrated: UInt8 = 255
  /// Bytes of an argument in front of an ask: `$17`, `$33` or `$41`, and the end of the line.
  static let askHead = 5

  init(digest: [UInt8], settings: RedisSharedStateSettings) {
    self.digest = digest
    let device = String(repeating: "0", count: GateKey.textCount)
    let text = "\(settings.prefix){\(device)}"
    name = Array("$\(text.utf8.count)\r\n\(text)\r\n".utf8)
    nameDevice = name.count - 3 - GateKey.textCount
    ask = Self.argument(count: 17)
    askWithReceipt = Self.argument(count: 33)
    askOfCopy = Self.argument(count: 41)
    var numbers = [
      Double(settings.collapseMilliseconds / 1000), Double(settings.outcomeSeconds + RedisScript.slackSeconds),
    ]
    for number in 0..<settings.limits.count {
      let limit = settings.limits[UInt8(number)]
      numbers.append(Double(limit?.intervalMicroseconds ?? 0))
      numbers.append(Double(limit?.toleranceMicroseconds ?? 0))
    }
    var bytes = [UInt8](repeating: 0, count: numbers.count * 8)
    for (index, number) in numbers.enumerated() {
      var span = bytes.mutableSpan
      span.store(littleEndian: number.bitPattern, at: index * 8)
    }
    self.settings = bytes
  }

  private static func argument(count: Int) -> [UInt8] {
    Array("$\(count)\r\n".utf8) + Array(repeating: 0, count: count) + Array("\r\n".utf8)
  }
}
