/// A notification with its payload, for the page and the list of the last ones.
package struct SeenNotification: Hashable, Sendable {
  package var entry: LedgerEntry
  package var payload: [UInt8]

  func write(to json: inout JSONText) {
    json.beginObject()
    json.key("request")
    entry.write(to: &json)
    json.key("payload")
    if JSONValue(payload) != nil { json.raw(payload) } else { json.value(String(decoding: payload, as: UTF8.self)) }
    json.endObject()
  }
}
