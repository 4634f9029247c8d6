import Foundation
import PushCore
import PushOperations

/// API keys as lines: a table for people, JSON for programs.
struct KeysTable {
  private struct Line: Encodable {
    let id: String
    let app: String?
    let environment: String?
    let scopes: [String]
    let rate: Int?
    /// Unix milliseconds.
    let createdAt: Int64
    let usedAt: Int64?

    enum CodingKeys: String, CodingKey {
      case id, app, environment, scopes, rate
      case createdAt = "created_at"
      case usedAt = "used_at"
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(id, forKey: .id)
      // Null rather than absent: the shape is the same for every line.
      try container.encode(app, forKey: .app)
      try container.encode(environment, forKey: .environment)
      try container.encode(scopes, forKey: .scopes)
      try container.encode(rate, forKey: .rate)
      try container.encode(createdAt, forKey: .createdAt)
      try container.encode(usedAt, forKey: .usedAt)
    }
  }

  private let rows: [Line]

  /// `1 gateway`, `2 gateways`.
  static func count(_ gateways: Int) -> String { "\(gateways) gateway\(gateways == 1 ? "" : "s")" }

  init(_ keys: [APIKeys.Listed]) {
    rows = keys.map { listed in
      let key = listed.key
      return Line(
        id: key.id, app: key.app, environment: key.environment,
        scopes: KeyScope.allCases.filter(key.scopes.contains).map(\.rawValue), rate: key.rate,
        createdAt: key.createdAt, usedAt: listed.usedAt)
    }
  }

  func jsonLines() throws -> [String] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return try rows.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
  }

  var lines: [String] {
    TextTable.lines(
      [["ID", "APP", "ENVIRONMENT", "SCOPES", "A MINUTE", "CREATED", "LAST USED"]]
        + rows.map { row in
          [
            row.id, row.app ?? "any", row.environment ?? "any", row.scopes.joined(separator: ","),
            row.rate.map(String.init) ?? "", time(row.createdAt), row.usedAt.map(time) ?? "never",
          ]
        })
  }

  private func time(_ unixMilliseconds: Int64) -> String {
    Date(timeIntervalSince1970: Double(unixMilliseconds) / 1000).formatted(.iso8601)
  }
}
