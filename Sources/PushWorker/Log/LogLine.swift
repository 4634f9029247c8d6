import Foundation
import Logging
import PushCore
import PushLane

/// One event of the log as one line.
package enum LogLine {
  /// `2026-11-21T12:00:00.000Z info rabbitmq: connected host=127.0.0.1`
  static func text(_ event: LogEvent, label: String, metadata: Logger.Metadata, at time: Date) -> String {
    var line = "\(LogTime.text(time)) \(event.level) \(label): \(singleLine(event.message.description))"
    for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
      let text = singleLine(text(value))
      line += text.contains(" ") || text.isEmpty ? " \(key)=\"\(text)\"" : " \(key)=\(text)"
    }
    if let error = event.error { line += " error=\"\(singleLine("\(error)"))\"" }
    return line + "\n"
  }

  /// `{"time":"…","level":"info","label":"rabbitmq","message":"connected","host":"127.0.0.1"}`
  static func json(_ event: LogEvent, label: String, metadata: Logger.Metadata, at time: Date) -> String {
    var fields: [(String, String)] = [
      ("time", quoted(LogTime.text(time))), ("level", quoted(event.level.rawValue)), ("label", quoted(label)),
      ("message", quoted(event.message.description)),
    ]
    let taken = Set(fields.map(\.0))
    for (key, value) in metadata.sorted(by: { $0.key < $1.key }) {
      fields.append((taken.contains(key) ? "metadata_\(key)" : key, json(value)))
    }
    if let error = event.error { fields.append(("error", quoted("\(error)"))) }
    return "{" + fields.map { "\(quoted($0.0)):\($0.1)" }.joined(separator: ",") + "}\n"
  }

  private static func json(_ value: Logger.MetadataValue) -> String {
    switch value {
    case .string(let text): quoted(text)
    case .stringConvertible(let number as any BinaryInteger): "\(number)"
    case .stringConvertible(let number as Double) where number.isFinite: "\(number)"
    case .stringConvertible(let flag as Bool): "\(flag)"
    case .stringConvertible(let value): quoted(value.description)
    case .array(let values): "[" + values.map(json).joined(separator: ",") + "]"
    case .dictionary(let values):
      "{" + values.sorted { $0.key < $1.key }.map { "\(quoted($0.key)):\(json($0.value))" }.joined(separator: ",") + "}"
    }
  }

  /// A value as text: `main,backup`, `a=1,b=2`.
  private static func text(_ value: Logger.MetadataValue) -> String {
    switch value {
    case .string(let text): text
    case .stringConvertible(let value): value.description
    case .array(let values): values.map(text).joined(separator: ",")
    case .dictionary(let values):
      values.sorted { $0.key < $1.key }.map { "\($0.key)=\(text($0.value))" }.joined(separator: ",")
    }
  }

  private static func quoted(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "\\\""
      case "\\": result += "\\\\"
      case "\n": result += "\\n"
      case "\r": result += "\\r"
      case "\t": result += "\\t"
      case _ where scalar.value < 0x20:
        result += "\\u" + Hex.text(scalar.value, count: 4)
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "\""
  }

  /// Text from a peer may be in a message: it must not start new lines or contain terminal codes.
  private static func singleLine(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f }) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      result += scalar.value < 0x20 || scalar.value == 0x7f ? " " : String(scalar)
    }
    return result
  }
}
