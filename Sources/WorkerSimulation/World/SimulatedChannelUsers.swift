package import APNsSimulator
import PushCore
import PushStores

/// The producers that request channels in the simulated world and broadcast to them, and the audit of the replies. It shares no code with
/// the workers.
package final class SimulatedChannelUsers {
  private struct Request {
    let id: String
    let action: String
    /// The channel's name; empty for a list.
    let name: String
  }

  package static let app = "com.example.app"
  /// The channel name whose request crashes each worker that carries it out.
  static let poison = "poison"
  private static let nameCount: UInt64 = 5

  private var requests: [String: Request] = [:]
  private var order: [String] = []
  /// Channels that replies reported for a name, oldest first.
  private var channels: [String: [String]] = [:]
  private var names: [String] = []
  private var replies: [String: [(isOK: Bool, body: String)]] = [:]
  /// Somebody deleted these at APNs.
  private var deleted: Set<String> = []
  /// Redis lost data, so a name may have got another channel.
  private var hasLostData = false
  /// When Redis lost the namings of channels, and of those that were in progress.
  private var losses: [ClosedRange<Int64>] = []
  /// When each channel's name was answered.
  private var namedAt: [String: [Int64]] = [:]
  private static let inProgressNanoseconds: Int64 = 5_000_000_000

  /// Unanswered creates whose channel, if there is one, nobody takes.
  private var abandonedCount = 0
  /// The number of copies in the queue of isolated requests.
  package private(set) var isolatedCount = 0
  package var requestCount: Int { order.count }
  package var repliedCount: Int { replies.count }
  /// Names with a reported channel.
  package var namedCount: Int { names.count }

  /// Begins the ids of requests that workers make for activities, and the names of their channels.
  private static let startsOfActivities = "activity-start:"
  private static let activityNames = "activity:"

  /// The channels of activities, in the order of their replies.
  var channelsOfActivities: [String] {
    names.filter { $0.hasPrefix(SimulatedChannelUsers.activityNames) }.flatMap { channels[$0] ?? [] }
  }

  /// Redis lost what was written since then.
  func redisLostData(since: Int64, now: Int64) {
    hasLostData = true
    losses.append(since...now + SimulatedChannelUsers.inProgressNanoseconds)
  }

  /// A worker ended.
  func ended(_ worker: SimulatedWorker) { abandonedCount += Int(worker.channelCounters.undecided) }

  func wasDeleted(_ channel: String) { deleted.insert(channel) }

  /// Every request has an answer.
  var isComplete: Bool { requests.keys.allSatisfy { replies[$0] != nil } }

  /// Publishes a request. false: its queue does not exist yet.
  /// - Parameter isPoison: the request crashes each worker that carries it out.
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

  /// A broadcast to one of the reported channels; nil: there is none yet.
  func broadcast(_ number: Int, random: inout SeededRandom) -> SimulatedJob? {
    let names = self.names.filter { !$0.hasPrefix(SimulatedChannelUsers.activityNames) }
    guard !names.isEmpty else { return nil }
    let name = names[Int(random.next() % UInt64(names.count))]
    return channels[name]?.last.map { SimulatedJob(broadcast: number, channel: $0) }
  }

  /// Takes the broker's events about channels. false: the event is about something else.
  func observe(_ event: SimulatedRabbitMQEvent, at now: Int64) -> Bool {
    guard case .stored(let queue, let message) = event else { return false }
    let body = message.body
    if queue.hasSuffix(".channels.isolated") { isolatedCount += 1 }
    if queue.hasSuffix(".dead"), let id = WorkerAuditor.text("id", in: body), requests[id] != nil { return true }
    guard queue.hasSuffix(".results.log"), message.routingKey.starts(with: "channel.".utf8) else { return false }
    let id = WorkerAuditor.text("id", in: body) ?? ""
    let isOK = WorkerAuditor.says(#""ok":true"#, in: body)
    let isOfActivity = id.hasPrefix(SimulatedChannelUsers.startsOfActivities)
    if !isOfActivity { replies[id, default: []].append((isOK, String(decoding: body, as: UTF8.self))) }
    if isOK, isOfActivity || requests[id]?.action == "ensure", let channel = WorkerAuditor.text("channel", in: body),
      let name = WorkerAuditor.text("name", in: body)
    {
      if channels[name] == nil { names.append(name) }
      if channels[name]?.contains(channel) != true { channels[name, default: []].append(channel) }
      namedAt[channel, default: []].append(now)
    }
    return true
  }

  /// Redis may have lost each of its namings: then whoever made it in vain does not know that another request took it, and deletes it.
  private func mayBeUnnamed(_ channel: String) -> Bool {
    (namedAt[channel] ?? []).allSatisfy { time in losses.contains { $0.contains(time) } }
  }

  /// Checks everything after the end. Returns the violations.
  /// - Parameters:
  ///   - atAPNs: the ids of the app's channels at APNs.
  ///   - mayBeRefused: a fault may have caused refusals or timeouts of requests.
  func violations(atAPNs: [String], mayBeRefused: Bool) -> [String] {
    var wrong: [String] = []
    for id in order {
      guard let request = requests[id] else { continue }
      let reported = replies[id] ?? []
      if reported.isEmpty { wrong.append("a channel request without an answer: \(id)") }
      if request.name == SimulatedChannelUsers.poison {
        for reply in reported where !WorkerAuditor.says(#""kind":"unavailable""#, in: Array(reply.body.utf8)) {
          wrong.append("a poison channel request was not given up: \(reply.body)")
        }
        continue
      }
      // A `read` may fail because its name has no channel yet.
      for reply in reported where !reply.isOK && request.action != "read" && !mayBeRefused {
        wrong.append("a channel request was refused: \(reply.body)")
      }
    }
    for id in replies.keys.sorted() where requests[id] == nil {
      wrong.append("a channel reply without a request: \(id)")
    }
    for name in names {
      let reported = channels[name] ?? []
      let kept = reported.filter { !deleted.contains($0) }
      if kept.count > 1, !hasLostData { wrong.append("\(name) has several channels: \(kept)") }
      for channel in kept where !atAPNs.contains(channel) && !mayBeUnnamed(channel) {
        wrong.append("APNs has no channel of \(name): \(channel)")
      }
    }
    let surplus = atAPNs.count - names.count
    if !hasLostData, !mayBeRefused, deleted.isEmpty, surplus < 0 || surplus > abandonedCount {
      wrong.append("APNs has \(atAPNs.count) channels for \(names.count) names; \(abandonedCount) may be nobody's")
    }
    return wrong
  }
}

extension SimulatedJob {
  /// A broadcast without an expiration: the channel's storage policy determines it.
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
