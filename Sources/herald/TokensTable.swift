import Foundation
import PushOperations

/// Marks of tokens as lines: a table for people, JSON for programs.
struct TokensTable {
  private struct Row: Encodable {
    var token: String
    var topic: String
    var dead: Bool
    var unregisteredAt: Int64?
    var secondsLeft: Int64?

    enum CodingKeys: String, CodingKey {
      case token, topic, dead
      case unregisteredAt = "unregistered_at"
      case secondsLeft = "seconds_left"
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(token, forKey: .token)
      try container.encode(topic, forKey: .topic)
      try container.encode(dead, forKey: .dead)
      // Null rather than absent: the shape is the same for every line.
      try container.encode(unregisteredAt, forKey: .unregisteredAt)
      try container.encode(secondsLeft, forKey: .secondsLeft)
    }
  }

  private let rows: [Row]

  /// `unmarked`: tokens that get a row even without a mark.
  init(app: String, marks: [DeadTokens.Mark], unmarked tokens: [String]) {
    var rows = marks.map { mark in
      Row(
        token: mark.token, topic: mark.topic, dead: true, unregisteredAt: mark.unregisteredAt,
        secondsLeft: mark.secondsLeft)
    }
    let marked = Set(marks.map(\.token))
    for token in tokens where !marked.contains(token) { rows.append(Row(token: token, topic: app, dead: false)) }
    self.rows = rows
  }

  func jsonLines() throws -> [String] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return try rows.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
  }

  var lines: [String] {
    TextTable.lines(
      [["TOKEN", "TOPIC", "DEAD SINCE", "MARK ENDS IN"]]
        + rows.map { row in
          [
            row.token, row.topic,
            row.unregisteredAt.map {
              Date(timeIntervalSince1970: Double($0) / 1000).formatted(.iso8601)
            } ?? "not marked",
            row.secondsLeft.map { "\($0 / 86_400) d \($0 % 86_400 / 3600) h" } ?? "",
          ]
        })
  }
}
