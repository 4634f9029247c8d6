/// An HTTP proxy that connects are made through, with CONNECT.
package struct Proxy: Hashable, Sendable {
  package let endpoint: Endpoint
  /// The value of `proxy-authorization`; nil: none is sent.
  let authorization: String?

  /// `user` and `password` as they are, not encoded.
  package init(endpoint: Endpoint, user: String? = nil, password: String? = nil) {
    self.endpoint = endpoint
    authorization = user.map { user in
      "Basic " + Base64.encode(Array("\(user):\(password ?? "")".utf8))
    }
  }
}

/// RFC 4648, with padding.
private enum Base64 {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  static func encode(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    var index = 0
    while index < bytes.count {
      let group = (0..<3).reduce(UInt32(0)) { sum, offset in
        sum << 8 | UInt32(index + offset < bytes.count ? bytes[index + offset] : 0)
      }
      for place in 0..<4 {
        let isPadding = index + place > bytes.count
        text.append(isPadding ? UInt8(ascii: "=") : alphabet[Int(group >> UInt32(18 - 6 * place) & 63)])
      }
      index += 3
    }
    return String(decoding: text, as: UTF8.self)
  }
}
