package import APNsSimulator
import PushCore

/// Those who ask for channels in the simulated world and send to them, and what they were told. It shares no code with the workers.
package final class SimulatedChannelUsers {
  private struct Request {
    let id: String
    let action: String
    /// What the channel is called; empty for a list.
    let name: String
  }

  package static let app = "com.example.app"
  /// Whoever carries out a request for this name ends by it.
  static let poison = "poison"
  private static let nameCount: UInt64 = 5

  private var requests: [String: Request] = [:]
  private var order: [String] = []
  /// Channels that a name was said to have, the first first.
  private var channels: [String: [String]] = [:]
  private var names: [String] = []
  private var replies: [String: [(isOK: Bool, body: String)]] = [:]
  /// Redis lost its memory, and with it which channel belongs to which name.
  private var hasForgotten = false

  /// Copies of isolated requests.
  package private(set) var isolatedCount = 0
  package var requestCount: Int { order.count }
  package var repliedCount: Int { replies.count }
  /// Names that were said to have a channel.
  package var namedCount: Int { names.count }

  func storeForgot() { hasForgotten = true }

  /// Every request has an answer.
  var isComplete: Bool { requests.keys.allSatisfy { replies[$0] != nil } }

  /// Asks for something. false: there is no queue for it yet.
  /// - Parameter isPoison: whoever carries it out ends by it.
  func ask(
    _ number: Int, _ rabbitmq: SimulatedRabbitMQ, isPoison: Bool, random: inout SeededRandom, now: Int64
  ) -> Bool {
    let draw = random.next()
    let channel = draw % SimulatedChannelUsers.nameCount
    let action = isPoison ? "ensure" : ["ensure", "ensure", "ensure", "ensure", "read", "list"][Int(draw / 16 % 6)]
    let name = isPoison ? SimulatedChannelUsers.poison : "match-\(channel)"
    let request = Request(id: "channel-request-\(number)", action: action, name: action == "list" ? "" : name)
    var body =
      "{\"version\":1,\"id\":\"\(request.id)\",\"action\":\"\(action)\",\"app\":\"\(SimulatedChannelUsers.app)\""
    if !request.name.isEmpty { body += ",\"name\":\"\(request.name)\"" }
    if action == "ensure" { body += ",\"storage\":\"\(channel % 2 == 0 ? "most-recent" : "none")\"" }
    let count = rabbitmq.publish(
      exchange: "", routingKey: "push.channels", properties: RabbitProperties(), body: Array((body + "}").utf8),
      now: now)
    guard count > 0 else { return false }
    if requests.updateValue(request, forKey: request.id) == nil { order.append(request.id) }
    return true
  }

  /// A broadcast to one of the channels that somebody was told of; nil: nobody was told of any.
  func broadcast(_ number: Int, random: inout SeededRandom) -> SimulatedJob? {
    guard !names.isEmpty else { return nil }
    let name = names[Int(random.next() % UInt64(names.count))]
    return channels[name]?.last.map { SimulatedJob(broadcast: number, channel: $0) }
  }

  /// Takes what is about channels out of what the broker did. false: it is about jobs.
  func happened(_ event: SimulatedRabbitMQEvent) -> Bool {
    guard case .stored(let queue, let message) = event else { return false }
    let body = message.body
    if queue.hasSuffix(".channels.isolated") { isolatedCount += 1 }
    if queue.hasSuffix(".dead"), let id = WorkerAuditor.text("id", in: body), requests[id] != nil { return true }
    guard queue.hasSuffix(".results.log"), message.routingKey.starts(with: "channel.".utf8) else { return false }
    let id = WorkerAuditor.text("id", in: body) ?? ""
    let isOK = WorkerAuditor.says(#""ok":true"#, in: body)
    replies[id, default: []].append((isOK, String(decoding: body, as: UTF8.self)))
    if isOK, requests[id]?.action == "ensure", let channel = WorkerAuditor.text("channel", in: body),
      let name = WorkerAuditor.text("name", in: body)
    {
      if channels[name] == nil { names.append(name) }
      if channels[name]?.contains(channel) != true { channels[name, default: []].append(channel) }
    }
    return true
  }

  /// Everything is over: what was wrong.
  /// - Parameters:
  ///   - atAPNs: the ids of the app's channels.
  ///   - mayBeRefused: APNs had reason to refuse requests, or they came to nothing in time.
  func violations(atAPNs: [String], mayBeRefused: Bool) -> [String] {
    var wrong: [String] = []
    for id in order {
      guard let request = requests[id] else { continue }
      let told = replies[id] ?? []
      if told.isEmpty { wrong.append("a channel request without an answer: \(id)") }
      if request.name == SimulatedChannelUsers.poison {
        for reply in told where !WorkerAuditor.says(#""kind":"unavailable""#, in: Array(reply.body.utf8)) {
          wrong.append("not given up: \(reply.body)")
        }
        continue
      }
      // A name that has no channel yet cannot be read.
      for reply in told where !reply.isOK && request.action != "read" && !mayBeRefused {
        wrong.append("refused: \(reply.body)")
      }
    }
    for id in replies.keys.sorted() where requests[id] == nil { wrong.append("a channel reply to nobody: \(id)") }
    for name in names {
      let told = channels[name] ?? []
      if told.count > 1, !hasForgotten { wrong.append("\(name) has several channels: \(told)") }
      for channel in told where !atAPNs.contains(channel) { wrong.append("\(name) has no channel at APNs: \(channel)") }
    }
    if !hasForgotten, !mayBeRefused, atAPNs.count != names.count {
      wrong.append("\(atAPNs.count) channels for \(names.count) names")
    }
    return wrong
  }
}

extension SimulatedJob {
  /// A broadcast, which says nothing of its expiration: the channel's storage policy decides.
  init(broadcast number: Int, channel: String) {
    id = "00000000-0000-4000-8000-b" + Hex.text(number, count: 11)
    targets = [channel]
    routingKey = "transactional"
    againAfterNanoseconds = nil
    body = Array(
      """
      {"version":1,"id":"\(id)","app":"com.example.app","push_type":"liveactivity","to":{"channel":"\(channel)"},\
      "payload":{"aps":{"timestamp":1796000000,"event":"update","content-state":{"home":\(number)}}}}
      """.utf8)
  }
}

extension Simulator {
  /// The ids of an app's channels.
  package func channels(of app: String) -> [String] {
    var ids: [String] = []
    configure { ids = $0.channels.all(of: app).map(\.id) }
    return ids
  }
}
