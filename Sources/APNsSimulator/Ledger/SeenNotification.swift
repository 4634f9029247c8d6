/// A notification with its payload, for the page and the list of the last ones.
public struct SeenNotification: Hashable, Sendable {
  /// The request.
  public var entry: LedgerEntry
  /// As received.
  public var payload: [UInt8]

  package init(entry: LedgerEntry, payload: [UInt8]) {
    self.entry = entry
    self.payload = payload
  }

  func write(to json: inout JSONText) {
    json.beginObject()
    json.key("request")
    entry.write(to: &json)
    json.key("payload")
    if JSONValue(payload) != nil { json.raw(payload) } else { json.value(String(decoding: payload, as: UTF8.self)) }
    json.endObject()
  }
}
