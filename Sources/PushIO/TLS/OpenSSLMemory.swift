import COpenSSL

/// OpenSSL's streams (BIO) over memory, to read and write PEM, DER and names without a file.
enum OpenSSLMemory {
  /// Lets `body` read `bytes`. The stream must not outlive the call.
  static func read<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
    unsafe bytes.withUnsafeBytes { buffer in
      let bio = unsafe BIO_new_mem_buf(buffer.baseAddress, Int32(clamping: buffer.count))
      defer { unsafe BIO_free(bio) }
      return unsafe body(bio)
    }
  }

  /// The bytes that `write` wrote; none if it returned false.
  static func written(by write: (OpaquePointer?) -> Bool) -> [UInt8] {
    let bio = unsafe BIO_new(BIO_s_mem())
    defer { unsafe BIO_free(bio) }
    guard unsafe write(bio) else { return [] }
    var start: UnsafeMutablePointer<CChar>?
    let count = unsafe herald_bio_memory(bio, &start)
    guard let start = unsafe start, count > 0 else { return [] }
    return unsafe Array(UnsafeRawBufferPointer(start: start, count: Int(count)))
  }
}
