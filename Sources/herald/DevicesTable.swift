import Foundation
import PushCore
import PushOperations
import PushStores

/// Devices as lines: a table for people, registrations for programs.
struct DevicesTable {
  let scope: AppScope
  let entries: [DeviceRegistryClient.Entry]

  var jsonLines: [String] {
    entries.map { String(decoding: $0.record.registration(in: scope), as: UTF8.self) }
  }

  var lines: [String] {
    TextTable.lines(
      [["DEVICE", "USER", "TOKEN", "PUSH TO START", "LOCALE", "OS", "TAGS", "SEEN"]]
        + entries.map { entry in
          let record = entry.record
          return [
            record.id, record.user ?? "-", record.token.map { DevicesTable.short($0.bytes) } ?? "-",
            record.startTokens.isEmpty ? "-" : record.startTokens.map(\.type).joined(separator: " "),
            record.locale ?? "-", record.osVersion?.text ?? "-", String(record.tags.count),
            Date(timeIntervalSince1970: Double(record.at) / 1000).formatted(.iso8601),
          ]
        })
  }

  /// Enough digits to recognise a token.
  private static func short(_ token: [UInt8]) -> String {
    token.count <= 8 ? Hex.text(token) : Hex.text(Array(token.prefix(8))) + "…"
  }

  /// A JSON object in one line, with these texts and numbers in this order.
  static func json(_ members: [(String, any Encodable)]) -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    return "{"
      + members.map { name, value in
        let text = (try? encoder.encode(value)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
        return "\"\(name)\":\(text)"
      }.joined(separator: ",") + "}"
  }
}
