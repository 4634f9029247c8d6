import Foundation
import PushCore
import PushOperations

/// The facts about one channel that a command has.
struct ChannelRow {
  let id: ChannelID
  let storage: StoragePolicy?
  let isDeleted: Bool
  /// In a list: the name in the registry.
  let name: ChannelName?

  init(_ id: ChannelID, _ storage: StoragePolicy?, isDeleted: Bool = false, name: ChannelName? = nil) {
    self.id = id
    self.storage = storage
    self.isDeleted = isDeleted
    self.name = name
  }
}

/// Channels as lines: a table for people, JSON for programs.
struct ChannelTable {
  private struct Line: Encodable {
    let channel: String
    let app: String
    let environment: String
    let storage: String?
    let name: String?
    let deleted: Bool
    let requestID: String

    enum CodingKeys: String, CodingKey {
      case channel, app, environment, storage, name, deleted
      case requestID = "request_id"
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(channel, forKey: .channel)
      try container.encode(app, forKey: .app)
      try container.encode(environment, forKey: .environment)
      // Null rather than absent: the shape is the same for every line.
      try container.encode(storage, forKey: .storage)
      try container.encode(name, forKey: .name)
      try container.encode(deleted, forKey: .deleted)
      try container.encode(requestID, forKey: .requestID)
    }
  }

  let app: String
  let environment: String
  let requestID: String
  let rows: [ChannelRow]

  var jsonLines: [String] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return rows.compactMap { row in
      let line = Line(
        channel: row.id.text, app: app, environment: environment, storage: row.storage?.name,
        name: row.name?.text, deleted: row.isDeleted, requestID: requestID)
      return (try? encoder.encode(line)).map { String(decoding: $0, as: UTF8.self) }
    }
  }

  /// A list has no storage policies: its table has no such column, but a column of names if some are known.
  var lines: [String] {
    let isList = rows.allSatisfy { $0.storage == nil }
    let hasNames = rows.contains { $0.name != nil }
    let head = isList ? (hasNames ? "NAME" : nil) : "STORAGE"
    return TextTable.lines(
      [["CHANNEL", head].compactMap(\.self)]
        + rows.map { row in [row.id.text, row.storage?.name ?? row.name?.text].compactMap(\.self) })
  }
}
