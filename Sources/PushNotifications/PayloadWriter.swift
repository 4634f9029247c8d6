import Foundation

/// Writes payloads: Apple's part, and the members of the app's own data beside it.
enum PayloadWriter {
  /// Keys in a fixed order, so that the same notification always gives the same bytes.
  private static var encoder: JSONEncoder {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return encoder
  }

  /// `{"aps": …, members of data}`; `aps` nil: only the data.
  static func payload<APS: Encodable>(
    aps: APS?, data: (any Encodable)?, maximum: Int = 4096
  ) throws(NotificationError) -> [UInt8] {
    var members: [[UInt8]] = []
    if let aps { members.append(Array("\"aps\":".utf8) + (try encode(aps))) }
    if let data {
      let inner = try object(data)
      // Without the braces; an empty object adds nothing.
      if inner.count > 2 { members.append(Array(inner.dropFirst().dropLast())) }
    }
    let payload = Array("{".utf8) + Array(members.joined(separator: [UInt8(ascii: ",")])) + Array("}".utf8)
    guard payload.count <= maximum else { throw .payloadTooLarge(bytes: payload.count, maximum: maximum) }
    return payload
  }

  /// A payload without `aps`.
  static func payload(data: any Encodable, maximum: Int = 4096) throws(NotificationError) -> [UInt8] {
    try payload(aps: NoAPS?.none, data: data, maximum: maximum)
  }

  /// Any value as JSON.
  static func encode(_ value: some Encodable) throws(NotificationError) -> [UInt8] {
    do {
      return Array(try encoder.encode(value))
    } catch {
      throw .dataNotEncodable("\(error)")
    }
  }

  /// A value that must encode to an object without `aps`.
  private static func object(_ data: any Encodable) throws(NotificationError) -> [UInt8] {
    let bytes = try encode(data)
    guard bytes.first == UInt8(ascii: "{") else {
      throw .dataNotAnObject(String(decoding: bytes.prefix(48), as: UTF8.self))
    }
    let decoded = try? JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any]
    guard decoded?["aps"] == nil else { throw .dataHasReservedKey("aps") }
    return bytes
  }

  /// A placeholder for a missing `aps`.
  private struct NoAPS: Encodable {}
}
