import PushCore

/// SHA-1, as Redis names scripts.
package enum RedisLuaDigest {
  /// 40 lowercase hex digits.
  package static func text(of message: [UInt8]) -> [UInt8] {
    var hash = SHA1()
    hash.update(message.span)
    let (a, b, c, d, e) = hash.finish()
    let digits = Array("0123456789abcdef".utf8)
    return [a, b, c, d, e].flatMap { word in
      stride(from: 28, through: 0, by: -4).map { digits[Int(word >> UInt32($0) & 15)] }
    }
  }
}
