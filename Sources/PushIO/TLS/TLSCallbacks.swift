import COpenSSL
import Glibc

/// OpenSSL's callbacks: each finds its object and records what happened.
enum TLSCallbacks {
  /// The BIO that moves ciphertext between OpenSSL and a stream's queues. Made once; never freed.
  nonisolated(unsafe) static let queueBIO: OpaquePointer? = {
    let method = unsafe BIO_meth_new(BIO_get_new_index() | herald_bio_type_source_sink(), "herald queue")
    unsafe BIO_meth_set_read_ex(method, readWanted)
    unsafe BIO_meth_set_write_ex(method, writeWanted)
    unsafe BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
    return unsafe method
  }()

  /// OpenSSL needs ciphertext.
  private static let readWanted:
    @convention(c) (OpaquePointer?, UnsafeMutablePointer<CChar>?, Int, UnsafeMutablePointer<Int>?) -> Int32 = {
      bio, bytes, count, done in
      unsafe herald_bio_clear_retry(bio)
      guard let stream = unsafe TLSCallbacks.stream(of: bio), let bytes = unsafe bytes else { return 0 }
      let taken = min(count, stream.ciphertextIn.count)
      if taken == 0 {
        unsafe herald_bio_set_retry_read(bio)
        return 0
      }
      unsafe stream.ciphertextIn.withUnsafeBytes { source in
        let target = unsafe UnsafeMutableRawBufferPointer(start: bytes, count: taken)
        unsafe target.copyMemory(from: UnsafeRawBufferPointer(start: source.baseAddress, count: taken))
      }
      stream.ciphertextIn.consume(taken)
      unsafe done?.pointee = taken
      return 1
    }

  /// OpenSSL has ciphertext. It is always accepted: `TLSStream.write` limits it.
  private static let writeWanted:
    @convention(c) (OpaquePointer?, UnsafePointer<CChar>?, Int, UnsafeMutablePointer<Int>?) -> Int32 = {
      bio, bytes, count, done in
      unsafe herald_bio_clear_retry(bio)
      guard let stream = unsafe TLSCallbacks.stream(of: bio), let bytes = unsafe bytes else { return 0 }
      let source = unsafe UnsafeRawBufferPointer(start: bytes, count: count).assumingMemoryBound(to: UInt8.self)
      unsafe stream.ciphertextOut.append(source)
      unsafe done?.pointee = count
      return 1
    }

  /// A certificate of the peer's chain was checked; the first error is recorded.
  static let verified: @convention(c) (Int32, OpaquePointer?) -> Int32 = { isAccepted, store in
    if isAccepted == 1 { return 1 }
    let stream = unsafe TLSCallbacks.stream(ofChain: store)
    unsafe stream?.recordFault(X509_STORE_CTX_get_error(store), X509_STORE_CTX_get_current_cert(store))
    return 0
  }

  /// A server showed its chain, and there are two kinds of authorities: `argument` is the `TLSTrust`.
  static let chainCame: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Int32 = { chain, argument in
    guard let chain = unsafe chain, let argument = unsafe argument else { return 0 }
    let trust = unsafe Unmanaged<TLSTrust>.fromOpaque(argument).takeUnretainedValue()
    let stream = unsafe TLSCallbacks.stream(ofChain: chain)
    let isVerified = unsafe trust.verifyWithFile(chain) { code, certificate in
      // If the file has the issuer, what is wrong with that chain says more than that the system does not know it.
      if !TLSStream.isUnknownIssuer(code) { unsafe stream?.recordFault(code, certificate) }
    }
    if isVerified {
      unsafe X509_STORE_CTX_set_error(chain, X509_V_OK)
      return 1
    }
    guard unsafe X509_verify_cert(chain) == 1 else { return 0 }
    stream?.forgetFault()
    return 1
  }

  /// The server sent a session that a later connection may resume. 1: we keep the reference.
  static let sessionCame: @convention(c) (OpaquePointer?, OpaquePointer?) -> Int32 = { ssl, session in
    guard let ssl = unsafe ssl, let session = unsafe session,
      let stream = unsafe TLSCallbacks.stream(ofSSL: ssl)
    else { return 0 }
    unsafe stream.recordSession(session)
    return 1
  }

  /// A client offers protocols.
  static let protocolsOffered:
    @convention(c) (
      OpaquePointer?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, UnsafeMutablePointer<UInt8>?,
      UnsafePointer<UInt8>?, UInt32, UnsafeMutableRawPointer?
    ) -> Int32 = { _, chosen, chosenCount, offered, count, argument in
      guard let argument = unsafe argument else { return SSL_TLSEXT_ERR_ALERT_FATAL }
      let context = unsafe Unmanaged<TLSContext>.fromOpaque(argument).takeUnretainedValue()
      return unsafe context.choose(among: offered, count: count, chosen, chosenCount)
    }

  /// An encrypted key is being read: returns the passphrase, a C string. Never prompts.
  static let passphraseWanted:
    @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32 = {
      buffer, size, _, argument in
      guard let buffer = unsafe buffer, let argument = unsafe argument else { return 0 }
      let passphrase = unsafe argument.assumingMemoryBound(to: CChar.self)
      let count = unsafe min(Int(size), strlen(passphrase))
      unsafe buffer.update(from: passphrase, count: count)
      return Int32(count)
    }

  private static func stream(of bio: OpaquePointer?) -> TLSStream? {
    guard let data = unsafe BIO_get_data(bio) else { return nil }
    return unsafe Unmanaged<TLSStream>.fromOpaque(data).takeUnretainedValue()
  }

  private static func stream(ofChain chain: OpaquePointer?) -> TLSStream? {
    guard let ssl = unsafe X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx()) else { return nil }
    return unsafe stream(ofSSL: OpaquePointer(ssl))
  }

  private static func stream(ofSSL ssl: OpaquePointer) -> TLSStream? {
    guard let data = unsafe SSL_get_ex_data(ssl, 0) else { return nil }
    return unsafe Unmanaged<TLSStream>.fromOpaque(data).takeUnretainedValue()
  }
}
