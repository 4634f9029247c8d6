import PushCore

/// The form of single header values.
enum HeaderRules {
  /// `8-4-4-4-12` hexadecimal digits; APNs takes either case.
  static func isUUID(_ text: String) -> Bool {
    let bytes = Array(text.utf8)
    guard bytes.count == 36 else { return false }
    for (index, byte) in bytes.enumerated() {
      switch index {
      case 8, 13, 18, 23: if byte != UInt8(ascii: "-") { return false }
      default: if Hex.value(byte) == nil { return false }
      }
    }
    return true
  }

  /// Unix seconds: digits only, and no more than a time needs.
  static func expiration(_ text: String) -> Int64? {
    guard !text.isEmpty, text.utf8.count <= 12, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return Int64(text)
  }

  /// 10, 5 or 1.
  static func priority(_ text: String) -> Int? {
    switch text {
    case "10": 10
    case "5": 5
    case "1": 1
    default: nil
    }
  }

  static let collapseIDBytesMaximum = 64

  /// A bundle id, or one with a suffix: letters, digits, `-`, `.`, `_`, at most 255 bytes, with something before and behind each dot.
  static func isTopic(_ text: String) -> Bool {
    let bytes = text.utf8
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard !bytes.isEmpty, bytes.count <= 255, !parts.contains("") else { return false }
    return bytes.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
        true
      default: false
      }
    }
  }

  /// Hexadecimal, whole bytes, 4 to 128 of them.
  static func isDeviceToken(_ text: some StringProtocol) -> Bool {
    let bytes = text.utf8
    return bytes.count >= 8 && bytes.count <= 256 && bytes.count % 2 == 0 && bytes.allSatisfy { Hex.value($0) != nil }
  }

  /// Base64 with its padding.
  static func isBase64(_ text: String) -> Bool {
    Base64.decode(Array(text.utf8), .standard) != nil
  }
}
