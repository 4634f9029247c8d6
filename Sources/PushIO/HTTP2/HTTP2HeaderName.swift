import Glibc

/// The header names that Herald and its simulator use, so that a name is one byte instead of a text.
package enum HTTP2HeaderName: UInt8, CaseIterable, Sendable {
  case method, scheme, authority, path, status
  case authorization, contentType, contentLength, userAgent, retryAfter
  case apnsTopic, apnsID, apnsPushType, apnsPriority, apnsExpiration, apnsCollapseID
  case apnsChannelID, apnsRequestID, apnsUniqueID, date

  /// Their number, for tables by name.
  static let count = 20

  /// The name on the wire: lower case.
  package var text: StaticString {
    switch self {
    case .method: ":method"
    case .scheme: ":scheme"
    case .authority: ":authority"
    case .path: ":path"
    case .status: ":status"
    case .authorization: "authorization"
    case .contentType: "content-type"
    case .contentLength: "content-length"
    case .userAgent: "user-agent"
    case .retryAfter: "retry-after"
    case .apnsTopic: "apns-topic"
    case .apnsID: "apns-id"
    case .apnsPushType: "apns-push-type"
    case .apnsPriority: "apns-priority"
    case .apnsExpiration: "apns-expiration"
    case .apnsCollapseID: "apns-collapse-id"
    case .apnsChannelID: "apns-channel-id"
    case .apnsRequestID: "apns-request-id"
    case .apnsUniqueID: "apns-unique-id"
    case .date: "date"
    }
  }

  /// The known name that equals these bytes, or nil. The length leaves at most three candidates.
  static func matching(_ bytes: UnsafeBufferPointer<UInt8>) -> HTTP2HeaderName? {
    switch bytes.count {
    case 4: unsafe first(of: bytes, .date)
    case 5: unsafe first(of: bytes, .path)
    case 7: unsafe first(of: bytes, .apnsID, .status) ?? first(of: bytes, .method, .scheme)
    case 10: unsafe first(of: bytes, .apnsTopic, .authority) ?? first(of: bytes, .userAgent)
    case 11: unsafe first(of: bytes, .retryAfter)
    case 12: unsafe first(of: bytes, .contentType)
    case 13: unsafe first(of: bytes, .authorization, .apnsPriority)
    case 14: unsafe first(of: bytes, .apnsPushType, .contentLength) ?? first(of: bytes, .apnsUniqueID)
    case 15: unsafe first(of: bytes, .apnsExpiration, .apnsChannelID) ?? first(of: bytes, .apnsRequestID)
    case 16: unsafe first(of: bytes, .apnsCollapseID)
    default: nil
    }
  }

  @inline(__always)
  private static func first(
    of bytes: UnsafeBufferPointer<UInt8>, _ one: HTTP2HeaderName, _ other: HTTP2HeaderName
  ) -> HTTP2HeaderName? {
    unsafe first(of: bytes, one) ?? first(of: bytes, other)
  }

  @inline(__always)
  private static func first(of bytes: UnsafeBufferPointer<UInt8>, _ one: HTTP2HeaderName) -> HTTP2HeaderName? {
    guard let start = bytes.baseAddress else { return nil }
    return unsafe memcmp(start, one.text.utf8Start, bytes.count) == 0 ? one : nil
  }
}
