import COpenSSL

/// SHA-256, for what must not be guessed from its digest.
package enum SHA256Digest {
  package static let count = 32

  /// 32 bytes.
  package static func of(_ bytes: Span<UInt8>) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: count)
    unsafe bytes.withUnsafeBufferPointer { source in
      unsafe digest.withUnsafeMutableBufferPointer { target in
        _ = unsafe SHA256(source.baseAddress, source.count, target.baseAddress)
      }
    }
    return digest
  }
}
