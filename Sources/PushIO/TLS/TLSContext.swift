import COpenSSL

/// One credential and role of TLS: trust, own certificate, ALPN, sessions. Immutable once made, and shared by all its connections and their
/// threads, as OpenSSL's context allows.
@safe
package final class TLSContext: @unchecked Sendable {
  package enum Role: Sendable {
    case client
    case server
  }

  package let role: Role
  /// Whether a client checks its server's certificate.
  let verifies: Bool
  /// The authorities that a client trusts; nil for a server.
  private let trust: TLSTrust?
  let sessions = TLSSessionCache()
  let handle: OpaquePointer
  /// ALPN's wire format: each name after its length.
  private let alpnWire: UnsafeMutableBufferPointer<UInt8>

  private init(role: Role, alpn: [String], verifies: Bool, trust: TLSTrust? = nil) throws(TLSError) {
    guard let handle = unsafe SSL_CTX_new(role == .client ? TLS_client_method() : TLS_server_method()) else {
      throw TLSError(kind: .system, text: "OpenSSL made no context: \(takeOpenSSLReasons().text)")
    }
    var wire: [UInt8] = []
    for name in alpn {
      precondition((1...255).contains(name.utf8.count), "an ALPN name has 1 to 255 bytes")
      wire.append(UInt8(name.utf8.count))
      wire += Array(name.utf8)
    }
    unsafe alpnWire = .allocate(capacity: wire.count)
    _ = unsafe alpnWire.initialize(from: wire)
    unsafe self.handle = unsafe handle
    self.role = role
    self.verifies = verifies
    self.trust = trust
    unsafe herald_ssl_ctx_set_min_tls12(handle)
    unsafe herald_ssl_ctx_forbid_renegotiation(handle)
    unsafe herald_ssl_ctx_accept_moving_buffers(handle)
    // Never prompt for a passphrase.
    unsafe SSL_CTX_set_default_passwd_cb(handle, { _, _, _, _ in 0 })
  }

  deinit {
    unsafe SSL_CTX_free(handle)
    unsafe alpnWire.deallocate()
  }

  /// The file of additional authorities that a client trusts.
  package var trustFile: String? { trust?.caFile }

  /// A client's context. It trusts the authorities in `caFile`, and the system's unless `trustsSystem` is false. It verifies the chain and
  /// the host's name unless `verify` is false. If a server agrees on none of `alpn`, `Transport.negotiatedProtocol` is nil.
  package static func client(
    alpn: [String], caFile: String? = nil, trustsSystem: Bool = true, certificate: TLSIdentity? = nil,
    verify: Bool = true
  ) throws(TLSError) -> TLSContext {
    try client(
      alpn: alpn, trust: TLSTrust(caFile: caFile, includesSystem: trustsSystem), certificate: certificate,
      verify: verify)
  }

  /// A client's context that shares its trust: many certificates, one store of authorities.
  package static func client(
    alpn: [String], trust: TLSTrust, certificate: TLSIdentity? = nil, verify: Bool = true
  ) throws(TLSError) -> TLSContext {
    let context = try TLSContext(role: .client, alpn: alpn, verifies: verify, trust: trust)
    unsafe trust.use(in: context.handle)
    if let certificate { try unsafe TLSIdentityLoader(context: context.handle).load(certificate) }
    unsafe SSL_CTX_set_verify(context.handle, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, TLSCallbacks.verified)
    if !alpn.isEmpty {
      unsafe SSL_CTX_set_alpn_protos(context.handle, context.alpnWire.baseAddress, UInt32(context.alpnWire.count))
    }
    unsafe herald_ssl_ctx_keep_client_sessions_outside(context.handle)
    unsafe SSL_CTX_sess_set_new_cb(context.handle, TLSCallbacks.sessionCame)
    ERR_clear_error()
    return context
  }

  /// A server's context. With `clientCAFile`, a client's certificate must come from one of these authorities; `requiresClientCertificate`
  /// says whether it must have one. A client that offers none of `alpn` is refused.
  package static func server(
    identity: TLSIdentity, alpn: [String], clientCAFile: String? = nil, requiresClientCertificate: Bool = true
  ) throws(TLSError) -> TLSContext {
    let context = try TLSContext(role: .server, alpn: alpn, verifies: clientCAFile != nil)
    try unsafe TLSIdentityLoader(context: context.handle).load(identity)
    if let clientCAFile {
      try unsafe TLSTrust(caFile: clientCAFile, includesSystem: false).use(in: context.handle)
      unsafe SSL_CTX_set_client_CA_list(context.handle, SSL_load_client_CA_file(clientCAFile))
      let required = requiresClientCertificate ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0
      unsafe SSL_CTX_set_verify(context.handle, SSL_VERIFY_PEER | required, TLSCallbacks.verified)
    }
    // Sessions of clients with certificates are only resumed in this context.
    let name: StaticString = "herald"
    unsafe SSL_CTX_set_session_id_context(context.handle, name.utf8Start, UInt32(name.utf8CodeUnitCount))
    if !alpn.isEmpty {
      let argument = unsafe Unmanaged.passUnretained(context).toOpaque()
      unsafe SSL_CTX_set_alpn_select_cb(context.handle, TLSCallbacks.protocolsOffered, argument)
    }
    ERR_clear_error()
    return context
  }

  /// A server's context from PEM files.
  package static func server(
    certificateFile: String, keyFile: String, alpn: [String], clientCAFile: String? = nil,
    requiresClientCertificate: Bool = true
  ) throws(TLSError) -> TLSContext {
    try server(
      identity: .pem(certificateFile: certificateFile, keyFile: keyFile), alpn: alpn, clientCAFile: clientCAFile,
      requiresClientCertificate: requiresClientCertificate)
  }

  /// The own certificate; nil if there is none.
  package var certificateFacts: CertificateFacts? {
    guard let certificate = unsafe SSL_CTX_get0_certificate(handle) else { return nil }
    return unsafe CertificateFacts(of: certificate)
  }

  /// The server's choice among the client's protocols, in the server's order. Called by OpenSSL.
  func choose(
    among offered: UnsafePointer<UInt8>?, count: UInt32, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ chosenCount: UnsafeMutablePointer<UInt8>?
  ) -> Int32 {
    var choice: UnsafeMutablePointer<UInt8>?
    let code = unsafe SSL_select_next_proto(
      &choice, chosenCount, alpnWire.baseAddress, UInt32(alpnWire.count), offered, count)
    guard code == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    unsafe chosen?.pointee = unsafe UnsafePointer(choice)
    return SSL_TLSEXT_ERR_OK
  }
}
