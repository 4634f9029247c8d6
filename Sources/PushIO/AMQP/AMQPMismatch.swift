/// A queue or exchange exists with another argument than we declare: parsed from the broker's PRECONDITION_FAILED.
package struct AMQPMismatch: Equatable, Sendable, CustomStringConvertible {
  /// `queue` or `exchange`.
  package var kind: String
  package var name: String
  package var argument: String
  /// The declared value, in the broker's words.
  package var wanted: String
  /// The existing value, in the broker's words.
  package var existing: String

  package var description: String {
    "\(kind) '\(name)' exists with \(argument) = \(existing), and \(wanted) is configured: "
      + "change the configuration, or drain and delete the \(kind) so that it is declared again"
  }

  package init(kind: String, name: String, argument: String, wanted: String, existing: String) {
    self.kind = kind
    self.name = name
    self.argument = argument
    self.wanted = wanted
    self.existing = existing
  }

  /// Reads "PRECONDITION_FAILED - inequivalent arg 'A' for queue 'Q' in vhost '/': received R but current is C".
  package init?(replyText text: String) {
    guard let argument = AMQPMismatch.quoted(in: text, after: "inequivalent arg '"),
      let received = AMQPMismatch.between(text, "received ", " but current is ")
    else { return nil }
    if let name = AMQPMismatch.quoted(in: text, after: "for queue '") {
      self.kind = "queue"
      self.name = name
    } else if let name = AMQPMismatch.quoted(in: text, after: "for exchange '") {
      self.kind = "exchange"
      self.name = name
    } else {
      return nil
    }
    self.argument = argument
    self.wanted = received
    self.existing = AMQPMismatch.tail(text, " but current is ") ?? "something else"
  }

  private static func tail(_ text: String, _ mark: String) -> String? {
    let bytes = Array(text.utf8)
    let wanted = Array(mark.utf8)
    guard bytes.count >= wanted.count else { return nil }
    for start in 0...(bytes.count - wanted.count)
    where bytes[start..<start + wanted.count].elementsEqual(wanted) {
      return String(decoding: bytes[(start + wanted.count)...], as: UTF8.self)
    }
    return nil
  }

  private static func head(_ text: String, _ mark: String) -> String? {
    guard let rest = tail(text, mark) else { return nil }
    return String(decoding: text.utf8.dropLast(rest.utf8.count + mark.utf8.count), as: UTF8.self)
  }

  private static func quoted(in text: String, after mark: String) -> String? {
    guard let rest = tail(text, mark) else { return nil }
    return head(rest, "'")
  }

  private static func between(_ text: String, _ start: String, _ end: String) -> String? {
    guard let rest = tail(text, start) else { return nil }
    return head(rest, end)
  }
}
