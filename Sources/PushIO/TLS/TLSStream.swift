import COpenSSL
import Glibc

/// One connection's TLS without I/O: ciphertext comes from one queue and goes to another, so that one receive and one send move many
/// records.
@safe
package final class TLSStream {
  package enum HandshakeProgress {
    /// The peer's bytes are needed.
    case blocked
    case done
    case failed(TLSError)
  }

  package enum ReadProgress {
    /// All ciphertext is decrypted.
    case blocked
    /// The limit was reached and there is more.
    case full
    /// The peer sent close_notify.
    case ended
    case failed(TLSError)
  }

  package var ciphertextIn = ByteQueue()
  package var ciphertextOut = ByteQueue()

  private let context: TLSContext
  private let ssl: OpaquePointer
  private let serverName: String
  /// The session cache's key: the same name on another peer is another host.
  private let sessionKey: String
  private var hasFailed = false
  private var session: OpaquePointer?
  private var faultCode: Int32 = 0
  private var faultyCertificate: OpaquePointer?

  /// Maximum plaintext passed to OpenSSL at once.
  private static let writeBytes = 128 * 1024
  private static let recordBytes = 16 * 1024
  /// Room for the plaintext of a few answers.
  private static let readBytesMinimum = 512

  /// `serverName`: must be in the server's certificate. `peer` is for error texts and sessions.
  package init(context: TLSContext, serverName: String, peer: String) throws(TLSError) {
    ERR_clear_error()
    guard let bio = unsafe BIO_new(TLSCallbacks.queueBIO) else {
      throw TLSError(kind: .system, text: "OpenSSL made no BIO: \(takeOpenSSLReasons().text)")
    }
    guard let ssl = unsafe SSL_new(context.handle) else {
      unsafe BIO_free(bio)
      throw TLSError(kind: .system, text: "OpenSSL made no connection: \(takeOpenSSLReasons().text)")
    }
    self.context = context
    unsafe self.ssl = unsafe ssl
    self.serverName = serverName
    sessionKey = serverName.isEmpty ? peer : serverName
    let me = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe BIO_set_data(bio, me)
    unsafe BIO_set_init(bio, 1)
    // One reference for both directions, which the connection now owns.
    unsafe SSL_set_bio(ssl, bio, bio)
    unsafe SSL_set_ex_data(ssl, 0, me)
    switch context.role {
    case .client:
      unsafe SSL_set_connect_state(ssl)
      try expectServerName()
      unsafe context.sessions.offer(to: ssl, host: sessionKey)
    case .server:
      unsafe SSL_set_accept_state(ssl)
    }
  }

  deinit {
    // Otherwise OpenSSL would not resume the session of a connection that was cut.
    if !hasFailed { unsafe SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN) }
    unsafe SSL_free(ssl)
    unsafe X509_free(faultyCertificate)
    unsafe SSL_SESSION_free(session)
  }

  /// What ALPN agreed on.
  var negotiatedProtocol: String? {
    var name: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    unsafe SSL_get0_alpn_selected(ssl, &name, &count)
    guard let name = unsafe name, count > 0 else { return nil }
    return unsafe String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
  }

  var resumedSession: Bool { unsafe SSL_session_reused(ssl) == 1 }

  var peerCertificate: CertificateFacts? {
    guard let certificate = unsafe SSL_get1_peer_certificate(ssl) else { return nil }
    defer { unsafe X509_free(certificate) }
    return unsafe CertificateFacts(of: certificate)
  }

  /// Continues the handshake as far as `ciphertextIn` allows.
  package func handshake() -> HandshakeProgress {
    ERR_clear_error()
    let result = unsafe SSL_do_handshake(ssl)
    if result == 1 {
      keepSession()
      return .done
    }
    let code = unsafe SSL_get_error(ssl, result)
    return code == SSL_ERROR_WANT_READ ? .blocked : .failed(failure("the TLS handshake", code))
  }

  /// Decrypts received bytes, until `plaintext` holds `limit` bytes.
  package func read(into plaintext: inout ByteQueue, limit: Int) -> ReadProgress {
    ERR_clear_error()
    defer { keepSession() }
    while true {
      let room = limit - plaintext.count
      if room <= 0 {
        return unsafe SSL_pending(ssl) > 0 || !ciphertextIn.isEmpty ? .full : .blocked
      }
      // Plaintext is shorter than its ciphertext; a record that came in parts needs another round.
      let wanted = min(room, TLSStream.recordBytes, max(ciphertextIn.count, TLSStream.readBytesMinimum))
      var result: Int32 = 0
      _ = unsafe plaintext.appendUnsafe(capacity: wanted) { space in
        result = unsafe SSL_read(ssl, space.baseAddress, Int32(clamping: min(room, space.count)))
        return Int(max(0, result))
      }
      if result > 0 { continue }
      let code = unsafe SSL_get_error(ssl, result)
      switch code {
      case SSL_ERROR_WANT_READ: return .blocked
      case SSL_ERROR_ZERO_RETURN: return .ended
      default: return .failed(failure("decrypting", code))
      }
    }
  }

  /// Encrypts plaintext until `ciphertextOut` holds about `ciphertextTarget` bytes.
  package func write(from plaintext: inout ByteQueue, ciphertextTarget: Int) -> TLSError? {
    if plaintext.isEmpty { return nil }
    ERR_clear_error()
    while !plaintext.isEmpty, ciphertextOut.count < ciphertextTarget {
      let result = unsafe plaintext.withUnsafeBytes { bytes in
        unsafe SSL_write(ssl, bytes.baseAddress, Int32(min(bytes.count, TLSStream.writeBytes)))
      }
      if result <= 0 { return unsafe failure("encrypting", SSL_get_error(ssl, result)) }
      plaintext.consume(Int(result))
    }
    return nil
  }

  /// Frees empty buffers: OpenSSL uses 33 KiB for records, which a busy connection keeps.
  package func releaseMemory() {
    ciphertextIn.releaseMemory()
    ciphertextOut.releaseMemory()
    // Only between two records: OpenSSL before 3.0.14 frees the buffer of a record whose header was read (CVE-2024-4741).
    if unsafe SSL_has_pending(ssl) == 0, unsafe strcmp(SSL_rstate_string(ssl), "RH") == 0 {
      unsafe SSL_free_buffers(ssl)
    }
  }

  /// Writes close_notify.
  package func sayGoodbye() {
    if hasFailed { return }
    unsafe SSL_shutdown(ssl)
    ERR_clear_error()
  }

  // MARK: - Recorded by callbacks

  func recordSession(_ handle: OpaquePointer) {
    unsafe SSL_SESSION_free(session)
    unsafe session = unsafe handle
  }

  func recordFault(_ code: Int32, _ certificate: OpaquePointer?) {
    if faultCode != 0 { return }
    faultCode = code
    guard let certificate = unsafe certificate else { return }
    unsafe X509_up_ref(certificate)
    unsafe faultyCertificate = unsafe certificate
  }

  /// Other authorities vouch for the chain.
  func forgetFault() {
    faultCode = 0
    unsafe X509_free(faultyCertificate)
    unsafe faultyCertificate = nil
  }

  /// Whether a chain failed because its issuer is not among the authorities.
  static func isUnknownIssuer(_ code: Int32) -> Bool {
    switch code {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
      X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
      X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      true
    default: false
    }
  }

  private func keepSession() {
    guard let newest = unsafe session else { return }
    unsafe session = nil
    unsafe context.sessions.store(newest, host: sessionKey)
  }

  // MARK: - Names and errors

  private func expectServerName() throws(TLSError) {
    let address = SocketAddress(numericHost: serverName, port: 0)
    var isSet: Int32 = 1
    if address == nil, !serverName.isEmpty {
      isSet = unsafe Int32(herald_ssl_set_host_name(ssl, serverName))
    }
    if context.verifies, isSet == 1 {
      if serverName.isEmpty {
        throw TLSError(
          kind: .certificate, text: "a server without a host name cannot be verified; set the name its certificate has")
      }
      // `*.host` is a wildcard, `f*.host` is not (RFC 9525).
      unsafe SSL_set_hostflags(ssl, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
      isSet =
        unsafe address == nil
        ? SSL_set1_host(ssl, serverName) : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), serverName)
    }
    if isSet != 1 {
      throw TLSError(kind: .system, text: "\(serverName) cannot be a TLS server's name: \(takeOpenSSLReasons().text)")
    }
  }

  private func failure(_ doing: String, _ code: Int32) -> TLSError {
    hasFailed = true
    let reasons = takeOpenSSLReasons()
    let whom = serverName.isEmpty ? "the peer" : serverName
    if faultCode != 0 { return certificateFailure(whom) }
    // The peer's alerts have reason codes from 1000 on.
    if reasons.codes.contains(where: { (1000..<1256).contains($0) }) {
      return TLSError(
        kind: .refused, text: "\(doing) with \(whom) was refused by the other side: \(reasons.text)")
    }
    if reasons.codes.contains(SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
      return TLSError(kind: .certificate, text: "\(doing) with \(whom) failed: it showed no client certificate")
    }
    let isForeign =
      reasons.codes.contains(SSL_R_WRONG_VERSION_NUMBER) || reasons.codes.contains(SSL_R_HTTP_REQUEST)
    let advice = isForeign ? "; check that the other side uses TLS on this port" : ""
    return TLSError(kind: .protocolFailure, text: "\(doing) with \(whom) failed: \(reasons.text)\(advice)")
  }

  private func certificateFailure(_ whom: String) -> TLSError {
    let reason = unsafe String(cString: X509_verify_cert_error_string(Int(faultCode)))
    var about = ""
    var names = ""
    if let certificate = unsafe faultyCertificate {
      let facts = unsafe CertificateFacts(of: certificate)
      about = " (subject \(facts.subject), issuer \(facts.issuer), valid until \(facts.notAfterText))"
      names = facts.dnsNames.isEmpty ? "none" : facts.dnsNames.joined(separator: ", ")
    }
    let advice =
      switch faultCode {
      case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
        "; it is valid for these DNS names: \(names)"
      case X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID:
        "; it must be renewed, or a clock is wrong"
      case _ where TLSStream.isUnknownIssuer(faultCode):
        "; if its issuer is to be trusted, name the issuer's certificate in ca_file"
      default:
        ""
      }
    return TLSError(
      kind: .certificate, text: "the certificate of \(whom) was not accepted: \(reason)\(about)\(advice)")
  }
}
