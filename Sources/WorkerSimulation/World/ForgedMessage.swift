import PushCore

/// A message that no honest producer or worker publishes: headers of ours, properties and numbers have every type and extreme values, and
/// some bytes of its body are wrong.
struct ForgedMessage {
  let exchange: String
  let routingKey: String
  let properties: RabbitProperties
  let body: [UInt8]

  /// Begins every id, so that auditors know what is forged.
  static let mark = "forged"
  private static let token = "f0f0" + String(repeating: "0", count: 60)

  /// Numbers at which a bound, a width or a sign changes.
  private static let numbers: [Int64] = [
    0, 1, -1, 2, 127, 128, 255, 256, 499, 500, 501, 32_767, 32_768, 65_535, 65_536, 65_280, 1 << 31 - 1, 1 << 31,
    1 << 32 - 1, 1 << 32, 1 << 53, 1 << 53 + 1, WorkerWorld.unixMillisecondsAtZero, .max, .max - 1, .min, .min + 1,
  ]

  private static let headers = [
    "x-herald-attempts", "x-herald-first-seen", "x-herald-claim", "x-herald-ambiguous", "x-herald-apns-id",
    "x-herald-deliveries", "x-herald-redeliveries", "x-herald-replay", "x-herald-reason", "x-herald-detail",
    "x-herald-class", "x-herald-cursor", "x-herald-publish", "x-herald-count", "x-herald-order", "x-herald-paused-at",
    "x-herald-waits", "x-herald-returning", "x-delivery-count", "x-death",
    "x-first-death-queue", "x-first-death-reason", "traceparent", "tracestate",
  ]

  private static let numberKinds = Array("bBsuIilL".utf8)

  /// - Parameters:
  ///   - number: makes its id unique.
  ///   - random: draws everything else.
  init(number: Int, mayBeLarge: Bool, random: inout SeededRandom) {
    let id = "\(ForgedMessage.mark)-\(number)"
    var forger = Forger(random: random)
    // Jobs for devices have the longest way.
    let kind = forger.pick(3) == 0 ? Kind.job : Kind.allCases[forger.pick(Kind.allCases.count)]
    (exchange, routingKey) = kind.place(&forger)
    var bytes = Array(kind.body(id).utf8)
    if forger.pick(2) == 0 { for _ in 0..<1 + forger.pick(3) { forger.change(&bytes, after: id) } }
    if kind == .job, forger.pick(12) == 0, mayBeLarge {
      // Too large for a worker to read: only its properties identify it.
      bytes.insert(contentsOf: Array(repeating: UInt8(ascii: " "), count: 600_000), at: 1)
    }
    body = bytes
    var properties = RabbitProperties()
    properties.messageID = Array(id.utf8) + forger.text(maximum: 140)
    if forger.pick(2) == 0 { properties.correlationID = forger.text(maximum: 255) }
    if forger.pick(3) == 0 { properties.replyTo = Array(ForgedMessage.mark.utf8) + forger.text(maximum: 100) }
    if forger.pick(2) == 0 { properties.timestamp = UInt64(bitPattern: forger.number()) }
    if forger.pick(4) == 0 { properties.priority = UInt8(truncatingIfNeeded: forger.number()) }
    if forger.pick(4) == 0 { properties.type = forger.text(maximum: 255) }
    if forger.pick(8) > 0 {
      var table = RabbitTable()
      for _ in 0..<1 + forger.pick(8) {
        table[ForgedMessage.headers[forger.pick(ForgedMessage.headers.count)]] = forger.value()
      }
      properties.headers = table
    }
    self.properties = properties
    random = forger.random
  }

  private enum Kind: CaseIterable {
    case job, batch, page, latePage, broadcast, audience, start, update, settlement, step, device, activityToken, forget
    case channelRequest

    /// Exchange and routing key.
    func place(_ forger: inout Forger) -> (String, String) {
      switch self {
      case .job, .batch, .page, .latePage, .broadcast, .audience, .start, .update:
        ("push.jobs", ["transactional", "bulk", "isolated"][forger.pick(3)])
      case .settlement, .step: ("", ["push.expansions", "push.expansions.bulk"][forger.pick(2)])
      case .device, .activityToken, .forget: ("", "push.registrations")
      case .channelRequest: ("", forger.pick(4) == 0 ? "push.channels.isolated" : "push.channels")
      }
    }

    func body(_ id: String) -> String {
      let head = #"{"version":1,"id":"\#(id)","app":"com.example.app","push_type":"#
      let alert = #""payload":{"aps":{"alert":"hello"}}}"#
      let activity = #""payload":{"aps":{"timestamp":1,"event":"update","content-state":{"n":1}}}}"#
      switch self {
      case .job:
        return head + #""alert","to":{"token":"\#(token)"},"priority":10,"expiration":1796009999,"collapse_id":"c1","#
          + #""token_registered_at":1795996800000,"sequence":1,\#(alert)"#
      case .batch: return head + #""alert","to":{"tokens":["\#(token)","\#(token)ff","aaaa0000"]},\#(alert)"#
      case .page:
        return #"{"version":1,"id":"\#(id)/0","parent_id":"\#(id)","app":"com.example.app","push_type":"alert","to":{"#
          + #""page":0,"position":0,"ordinals":[0,1,2,5],"epoch":1},\#(alert)"#
      case .latePage:
        return #"{"version":1,"id":"\#(id)/late/d1","parent_id":"\#(id)","app":"com.example.app","push_type":"#
          + #""liveactivity","activity":"\#(id)","revision":1,"to":{"page":4294967295,"ordinals":[1],"late":"d1"},"#
          + activity
      case .broadcast:
        return #"{"version":1,"id":"\#(id)/channel","parent_id":"\#(id)","app":"com.example.app","push_type":"#
          + #""liveactivity","activity":"\#(id)","revision":1,"to":{"channel":"AAAAAAAAAAAAAAAAAAAAAA=="},"# + activity
      case .audience: return head + #""alert","to":{"devices":["forged-device","d1"]},"dry_run":true,\#(alert)"#
      case .start:
        return head + #""liveactivity","activity":"\#(id)","to":{"devices":["forged-device"]},"payload":{"aps":{"#
          + #""timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":"x"}}}"#
      case .update: return head + #""liveactivity","to":{"activity":"\#(id)"},"sequence":1,"# + activity
      case .settlement:
        return #"{"settles":"\#(id)","app":"com.example.app","environment":"production","page":0,"position":0,"#
          + #""ends":"aa","ordinals":"1:0,1"}"#
      case .step: return head + #""alert","to":{"devices":["forged-device"]},\#(alert)"#
      case .device:
        return #"{"version":1,"kind":"device","at":1796000000000,"app":"com.example.app","environment":"production","#
          + #""device":"forged-device","user":"forged-user","token":"\#(token)","locale":"en","os_version":"18.1","#
          + #""tags":{"level":{"increment":1},"plan":"gold","n":1}}"#
      case .activityToken:
        return #"{"version":1,"kind":"activity","at":1796000000000,"app":"com.example.app","environment":"#
          + #""production","device":"forged-device","activity":"\#(id)","token":"\#(token)"}"#
      case .forget:
        return #"{"version":1,"kind":"forget","at":1796000000000,"app":"com.example.app","environment":"production","#
          + #""device":"forged-device"}"#
      case .channelRequest:
        return #"{"version":1,"id":"\#(id)","action":"read","app":"\#(SimulatedJob.campaignApp)","channel":"#
          + #""AAAAAAAAAAAAAAAAAAAAAA=="}"#
      }
    }
  }

  /// Draws forged values.
  private struct Forger {
    var random: SeededRandom

    mutating func pick(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }

    mutating func number() -> Int64 {
      pick(4) == 0 ? Int64(bitPattern: random.next()) : ForgedMessage.numbers[pick(ForgedMessage.numbers.count)]
    }

    /// Random bytes, often not UTF-8.
    mutating func text(maximum: Int) -> [UInt8] {
      let count = pick(3) == 0 ? maximum : pick(12)
      switch pick(3) {
      case 0: return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      case 1: return Array(repeating: 0xFF, count: count)
      default: return Array(repeating: UInt8(ascii: "x"), count: count)
      }
    }

    /// A header's value, of any type.
    mutating func value(depth: Int = 0) -> RabbitValue {
      if pick(2) == 0 { return .number(kind: UInt8(ascii: "l"), number()) }
      switch pick(depth < 3 ? 12 : 8) {
      case 0: return .flag(pick(2) == 0)
      case 1, 2: return .number(kind: ForgedMessage.numberKinds[pick(ForgedMessage.numberKinds.count)], number())
      case 3: return .timestamp(UInt64(bitPattern: number()))
      case 4: return .text(pick(2) == 0 ? text(maximum: 5_000) : Array("\(number())".utf8))
      case 5: return .text("\(UInt32(truncatingIfNeeded: number())):\(number()):\(number()):\(number())")
      case 6: return .bytes(text(maximum: 5_000))
      case 7: return .void
      case 8:
        let (kind, count) = [("f", 4), ("d", 8), ("D", 5)][pick(3)]
        return .opaque(kind: kind.utf8.first ?? 0, (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) })
      case 9: return .array((0..<pick(4)).map { _ in value(depth: depth + 1) })
      case 10: return .text("transactional")
      default:
        var table = RabbitTable()
        for name in 0..<pick(4) { table["\(name)"] = value(depth: depth + 1) }
        return .table(table)
      }
    }

    /// Replaces a number, or changes a byte, and leaves the id at the start as it is.
    mutating func change(_ bytes: inout [UInt8], after id: String) {
      let first = min(bytes.count - 1, 24 + id.utf8.count)
      let place = first + pick(bytes.count - first)
      guard pick(4) > 0 else {
        bytes[place] = UInt8(truncatingIfNeeded: random.next())
        return
      }
      func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }
      guard let start = bytes[place...].firstIndex(where: isDigit) else { return }
      let end = bytes[start...].firstIndex { !isDigit($0) } ?? bytes.count
      bytes.replaceSubrange(start..<end, with: Array("\(number())".utf8))
    }
  }
}
