import PushCore

/// The ledger as JSON: the answers of `GET /counters`, `/ledger` and `/notifications`.
extension Ledger {
  package func writeCounters(to json: inout JSONText) {
    json.beginObject()
    json.field("requests", requests)
    json.field("accepted", accepted)
    json.field("accepted_ids", distinctAccepted)
    json.field("duplicate_ids", duplicates.count)
    json.key("answers")
    json.beginObject()
    for (name, count) in answers.sorted(by: { $0.key < $1.key }) { json.field(name, count) }
    json.endObject()
    json.key("endings")
    json.beginObject()
    for (ending, count) in endings.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      json.field(ending.rawValue, count)
    }
    json.endObject()
    json.field("connections_opened", connectionsOpened)
    json.field("connections_open", connectionsOpen)
    json.field("handshakes_refused", handshakesRefused)
    json.field("streams_over_limit", streamsOverLimit)
    json.field("pings", pings)
    json.field("token_changes", tokenChanges)
    json.field("cancels", connections.reduce(0) { $0 + $1.cancels })
    json.field("entries_dropped", entriesDropped)
    json.field("ids_dropped", identifiersDropped)
    json.key("activities")
    activities.write(to: &json)
    json.endObject()
  }

  /// Counters, connections, ids accepted more than once, and the kept requests.
  public func json() -> [UInt8] {
    var json = JSONText()
    json.beginObject()
    json.key("counters")
    writeCounters(to: &json)
    json.key("connections")
    json.beginArray()
    for connection in connections { connection.write(to: &json) }
    json.endArray()
    json.key("duplicates")
    json.beginObject()
    for (id, count) in duplicateIDs.sorted(by: { $0.key < $1.key }) { json.field(id, count) }
    json.endObject()
    json.key("requests")
    json.beginArray()
    for entry in entries { entry.write(to: &json) }
    json.endArray()
    json.endObject()
    return json.bytes
  }

  /// A line for each accepted id: the id in lower case, a space, the number. Complete if no id was dropped.
  func acceptanceLines() -> [UInt8] {
    var lines: [UInt8] = []
    lines.reserveCapacity(acceptances.count * 39)
    for (id, count) in acceptances {
      lines.append(contentsOf: Ledger.text(of: (id.high, id.low)).utf8)
      lines.append(UInt8(ascii: " "))
      lines.append(contentsOf: String(count).utf8)
      lines.append(UInt8(ascii: "\n"))
    }
    return lines
  }

  static func text(of id: (high: UInt64, low: UInt64)) -> String {
    var text: [UInt8] = []
    for index in 0..<32 {
      if index == 8 || index == 12 || index == 16 || index == 20 { text.append(UInt8(ascii: "-")) }
      let word = index < 16 ? id.high : id.low
      text.append(Hex.digit(UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index % 16)) & 15)))
    }
    return String(decoding: text, as: UTF8.self)
  }
}
