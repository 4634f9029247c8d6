import PushCore

/// One device, by its token from APNs.
public struct DeviceToken: Hashable, Sendable {
  /// Lower-case hexadecimal digits.
  public let text: String

  /// Takes the app's text: hexadecimal digits of either case. Throws `NotificationError.deviceToken` otherwise.
  public init(_ text: String) throws(NotificationError) {
    let digits = text.utf8
    guard (8...256).contains(digits.count), digits.count % 2 == 0, text.allSatisfy({ $0.isASCII && $0.isHexDigit })
    else { throw .deviceToken(text) }
    self.text = text.lowercased()
  }

  /// Takes the bytes that the system gave to the app: 4 to 128 of them.
  public init(bytes: some Sequence<UInt8>) throws(NotificationError) {
    try self.init(Hex.text(Array(bytes)))
  }
}

/// A push's targets: one device, or up to 1000 that all get the same push.
public struct Target: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case device(DeviceToken)
    case devices([DeviceToken])
  }

  let kind: Kind

  private init(_ kind: Kind) {
    self.kind = kind
  }

  /// One device.
  public static func device(_ token: DeviceToken) -> Target { Target(.device(token)) }

  /// One device, by its token's digits.
  public static func device(_ token: String) throws(NotificationError) -> Target { device(try DeviceToken(token)) }

  /// 1 to 1000 devices, each sent to and reported separately; a repeated token gets one push.
  public static func devices(_ tokens: [DeviceToken]) throws(NotificationError) -> Target {
    guard (1...1000).contains(tokens.count) else { throw .deviceCount(tokens.count) }
    return Target(.devices(tokens))
  }
}

/// A broadcast channel's id, as APNs gave it when the channel was created.
public struct ChannelID: Hashable, Sendable {
  /// The text that is sent.
  public let text: String

  /// Takes base64 of 1 to 128 characters, in either alphabet. Throws `NotificationError.channelID` otherwise.
  public init(_ text: String) throws(NotificationError) {
    let isBase64 = text.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "-"),
        UInt8(ascii: "_"), UInt8(ascii: "="):
        true
      default: false
      }
    }
    guard (1...128).contains(text.utf8.count), isBase64 else { throw .channelID(text) }
    self.text = text
  }
}
