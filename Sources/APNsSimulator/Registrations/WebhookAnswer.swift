/// A webhook's answer: only its status line counts.
package enum WebhookAnswer: Hashable, Sendable {
  case incomplete
  case status(Int)
  /// No HTTP/1 answer.
  case unreadable

  /// A status line is no longer than this.
  package static let lineBytesMaximum = 4096

  private static let start = Array("HTTP/1.".utf8)

  /// Reads `HTTP/1.x NNN …`, up to the end of the line.
  package static func read(_ bytes: Span<UInt8>) -> WebhookAnswer {
    let prefixCount = start.count
    let count = min(bytes.count, prefixCount)
    for index in 0..<count where bytes[index] != start[index] { return .unreadable }
    var end = count
    while end < bytes.count, bytes[end] != UInt8(ascii: "\n") { end += 1 }
    guard end < bytes.count else { return bytes.count > lineBytesMaximum ? .unreadable : .incomplete }
    // HTTP/1.1 200
    let statusStart = prefixCount + 2
    guard end >= statusStart + 3, isDigit(bytes[prefixCount]), bytes[prefixCount + 1] == UInt8(ascii: " ") else {
      return .unreadable
    }
    var status = 0
    for index in statusStart..<statusStart + 3 {
      guard isDigit(bytes[index]) else { return .unreadable }
      status = status * 10 + Int(bytes[index] - UInt8(ascii: "0"))
    }
    let next = statusStart + 3
    let isWhole = bytes[next] == UInt8(ascii: " ") || bytes[next] == UInt8(ascii: "\r") || next == end
    return isWhole && status >= 200 ? .status(status) : .unreadable
  }

  private static func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }
}
