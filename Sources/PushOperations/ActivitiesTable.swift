import Foundation
package import PushCore
package import PushStores

/// Live Activities as lines: a table for people, JSON for programs.
package struct ActivitiesTable {
  private struct Line: Encodable {
    let activity: String
    let app: String
    let environment: String
    let state: String
    let attributesType: String?
    let revision: UInt32
    let timestamp: Int64?
    let channel: String?
    let createdAt: Int64
    let expiresAt: Int64
    /// nil in a list, which does not read them.
    let members: [String: Int]?
    let devices: [Device]?

    enum CodingKeys: String, CodingKey {
      case activity, app, environment, state, revision, timestamp, channel, members, devices
      case attributesType = "attributes_type"
      case createdAt = "created_at"
      case expiresAt = "expires_at"
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(activity, forKey: .activity)
      try container.encode(app, forKey: .app)
      try container.encode(environment, forKey: .environment)
      try container.encode(state, forKey: .state)
      try container.encode(revision, forKey: .revision)
      // Null rather than absent: the shape is the same for every line.
      try container.encode(attributesType, forKey: .attributesType)
      try container.encode(timestamp, forKey: .timestamp)
      try container.encode(channel, forKey: .channel)
      try container.encode(createdAt, forKey: .createdAt)
      try container.encode(expiresAt, forKey: .expiresAt)
      try container.encodeIfPresent(members, forKey: .members)
      try container.encodeIfPresent(devices, forKey: .devices)
    }
  }

  struct Device: Encodable {
    /// nil: it was forgotten.
    let device: String?
    let state: String
    let isOnChannel: Bool
    let revision: UInt32
    /// Unix milliseconds.
    let startedAt: Int64?
    let tokenAt: Int64?

    enum CodingKeys: String, CodingKey {
      case device, state, revision
      case isOnChannel = "on_channel"
      case startedAt = "started_at"
      case tokenAt = "token_at"
    }

    /// The same JSON as by `encode`, for pages of many.
    func append(to bytes: inout [UInt8]) {
      bytes.append(text: "{\"device\":")
      if let device { bytes.append(jsonString: device) } else { bytes.append(text: "null") }
      bytes.append(text: ",\"on_channel\":\(isOnChannel),\"revision\":")
      bytes.append(decimal: Int64(revision))
      bytes.append(text: ",\"started_at\":")
      if let startedAt { bytes.append(decimal: startedAt) } else { bytes.append(text: "null") }
      bytes.append(text: ",\"state\":")
      bytes.append(jsonString: state)
      bytes.append(text: ",\"token_at\":")
      if let tokenAt { bytes.append(decimal: tokenAt) } else { bytes.append(text: "null") }
      bytes.append(text: "}")
    }

    init(_ member: ActivityMember, _ id: String?) {
      device = id
      state = member.status.name
      isOnChannel = member.way == .channel
      revision = member.sent
      startedAt = member.start.flatMap { $0.at == 0 ? nil : Int64($0.at) * 1000 }
      tokenAt = member.changedAt == 0 ? nil : member.changedAt
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(device, forKey: .device)
      try container.encode(state, forKey: .state)
      try container.encode(isOnChannel, forKey: .isOnChannel)
      try container.encode(revision, forKey: .revision)
      try container.encode(startedAt, forKey: .startedAt)
      try container.encode(tokenAt, forKey: .tokenAt)
    }
  }

  private let scope: AppScope
  /// Unix milliseconds.
  private let now: Int64

  package init(_ scope: AppScope, now: Int64) {
    self.scope = scope
    self.now = now
  }

  private func json(_ activity: ActivityRegistry.Snapshot, members: [String: Int]?, devices: [Device]?) throws -> String
  {
    let state = activity.activity
    let line = Line(
      activity: activity.id.text, app: scope.app, environment: scope.environment.name,
      state: state.phase(now: now).name,
      attributesType: state.attributesType.isEmpty ? nil : state.attributesType, revision: state.lastNumber,
      timestamp: (state.content?.revision ?? state.startRevision)?.timestamp,
      channel: state.channel?.text, createdAt: state.createdAt, expiresAt: state.expiresAt, members: members,
      devices: devices)
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(line), as: UTF8.self)
  }

  package func jsonLines(_ activities: [ActivityRegistry.Snapshot]) throws -> [String] {
    try activities.map { try json($0, members: nil, devices: nil) }
  }

  package func jsonLine(_ shown: ActivitiesClient.Shown) throws -> String {
    let counts = ActivityMember.Status.allCases.map { ($0.name, shown.activity.count($0)) }
    return try json(
      shown.activity, members: Dictionary(uniqueKeysWithValues: counts), devices: devices(shown))
  }

  /// A page for the gateway.
  package func jsonLine(_ found: ActivitiesClient.Page) throws -> [UInt8] {
    var bytes = Array(try json(found.activity, members: nil, devices: nil).utf8.dropLast())
    bytes.append(text: ",\"members\":{\"all\":\(found.counts.all),\"live\":\(found.counts.live)},\"devices\":[")
    for (index, (ordinal, member)) in found.page.members.enumerated() {
      if index > 0 { bytes.append(text: ",") }
      Device(member, found.devices[ordinal]).append(to: &bytes)
    }
    bytes.append(text: "],\"next\":")
    if let next = found.page.next { bytes.append(jsonString: "\(next)") } else { bytes.append(text: "null") }
    bytes.append(text: "}")
    return bytes
  }

  private func devices(_ shown: ActivitiesClient.Shown) -> [Device] {
    shown.activity.members.sorted { $0.key < $1.key }.map { Device($0.value, shown.devices[$0.key]) }
  }

  package func lines(_ activities: [ActivityRegistry.Snapshot]) -> [String] {
    TextTable.lines(
      [["ACTIVITY", "STATE", "TYPE", "REVISION", "SINCE"]]
        + activities.map { activity in
          let state = activity.activity
          return [
            activity.id.text, state.phase(now: now).name, state.attributesType, "\(state.lastNumber)",
            time(state.createdAt),
          ]
        })
  }

  package func lines(_ shown: ActivitiesClient.Shown) -> [String] {
    let counts = ActivityMember.Status.allCases.map { "\(shown.activity.count($0)) \($0.name)" }
    let way =
      switch shown.activity.activity.updateWay {
      case .tokens: "Updates go to update tokens"
      case .channel(let id): "Updates go to the channel \(id), and to update tokens of devices without channels"
      case .undecided, .awaited: "Whether updates go to a channel is not decided"
      }
    let head = lines([shown.activity]) + ["", way, "Members: \(counts.joined(separator: ", "))"]
    if shown.activity.members.isEmpty { return head }
    return head + [""]
      + TextTable.lines(
        [["DEVICE", "STATE", "BY", "REVISION SENT", "STARTED", "TOKEN SINCE"]]
          + devices(shown).map { device in
            [
              device.device ?? "(forgotten)", device.state, device.isOnChannel ? "channel" : "token",
              "\(device.revision)",
              device.startedAt.map(time) ?? "", device.tokenAt.map(time) ?? "",
            ]
          })
  }

  private func time(_ milliseconds: Int64) -> String {
    Date(timeIntervalSince1970: Double(milliseconds) / 1000).formatted(.iso8601)
  }
}
