import Foundation
import PushCore
import PushOperations

/// Dead letters for people: a row each, or a page each.
enum DeadLetterTable {
  static let header = line(["#", "REASON", "CLASS", "APP", "ID", "ENQUEUED", "DETAIL"])

  /// Widths of all columns but the last, which takes the rest of the line.
  private static let widths = [5, 14, 13, 28, 36, 20]

  static func row(_ letter: DeadLetter) -> String {
    line([
      "\(letter.position)", letter.reason, letter.className, letter.app ?? "-", letter.id ?? "-",
      letter.enqueuedAt?.formatted(.iso8601) ?? "-", letter.detail ?? "-",
    ])
  }

  static func page(_ letter: DeadLetter) -> String {
    let facts = [
      ("position", "\(letter.position)"), ("reason", letter.reason), ("detail", letter.detail),
      ("ambiguous", letter.isAmbiguous ? "an earlier attempt may have reached APNs" : nil),
      ("class", letter.className), ("app", letter.app), ("id", letter.id),
      ("enqueued", letter.enqueuedAt?.formatted(.iso8601)),
    ]
    let lines = facts.compactMap { name, value in value.map { "\(name): \(TextTable.printable($0))" } }
    let body =
      letter.isOversized
      ? "(too large to be read)" : letter.text ?? "base64: \(Data(letter.body).base64EncodedString())"
    return lines.joined(separator: "\n") + "\n\n\(body)\n"
  }

  private static func line(_ columns: [String]) -> String { TextTable.line(columns, widths: widths) }
}
