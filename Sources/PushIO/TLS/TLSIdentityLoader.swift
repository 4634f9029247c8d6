import COpenSSL

/// Loads a certificate, its chain and its private key into an OpenSSL context.
@safe
struct TLSIdentityLoader {
  private let context: OpaquePointer

  init(context: OpaquePointer) {
    unsafe self.context = unsafe context
  }

  func load(_ identity: TLSIdentity) throws(TLSError) {
    ERR_clear_error()
    switch identity.source {
    case .pem(let certificateFile, let keyFile):
      try loadCertificate(certificateFile)
      try loadKey(keyFile, passphrase: identity.passphrase)
    case .pkcs12(let file):
      try loadPKCS12(file, passphrase: identity.passphrase)
    }
    guard unsafe SSL_CTX_check_private_key(context) == 1 else {
      _ = takeOpenSSLReasons()
      throw TLSError(kind: .key, text: "\(identity): the private key does not belong to the certificate")
    }
  }

  private func loadCertificate(_ file: String) throws(TLSError) {
    try requireReadable(file, "the certificate")
    guard unsafe SSL_CTX_use_certificate_chain_file(context, file) == 1 else {
      throw TLSError(kind: .file, text: "\(file) holds no usable PEM certificate: \(takeOpenSSLReasons().text)")
    }
  }

  private func loadKey(_ file: String, passphrase: String?) throws(TLSError) {
    try requireReadable(file, "the private key")
    let bio = unsafe BIO_new_file(file, "r")
    defer { unsafe BIO_free(bio) }
    let key = unsafe (passphrase ?? "").withCString { passphrase in
      unsafe PEM_read_bio_PrivateKey(
        bio, nil, TLSCallbacks.passphraseWanted, UnsafeMutableRawPointer(mutating: passphrase))
    }
    guard let key = unsafe key else {
      let advice = passphrase == nil ? "check that it is PEM and not encrypted" : "check the passphrase"
      throw TLSError(
        kind: .key, text: "the private key \(file) cannot be read: \(takeOpenSSLReasons().text); \(advice)")
    }
    defer { unsafe EVP_PKEY_free(key) }
    try unsafe use(key: key, from: file)
  }

  private func loadPKCS12(_ file: String, passphrase: String?) throws(TLSError) {
    try requireReadable(file, "the PKCS#12 file")
    let bio = unsafe BIO_new_file(file, "r")
    defer { unsafe BIO_free(bio) }
    guard let container = unsafe d2i_PKCS12_bio(bio, nil) else {
      throw TLSError(kind: .file, text: "\(file) is not a PKCS#12 file: \(takeOpenSSLReasons().text)")
    }
    defer { unsafe PKCS12_free(container) }
    var key: OpaquePointer?
    var certificate: OpaquePointer?
    var chain: OpaquePointer?
    defer {
      unsafe EVP_PKEY_free(key)
      unsafe X509_free(certificate)
      unsafe herald_x509_stack_free(chain)
    }
    var isParsed = unsafe PKCS12_parse(container, passphrase ?? "", &key, &certificate, &chain) == 1
    if !isParsed, unsafe PKCS12_verify_mac(container, passphrase ?? "", -1) == 1 {
      // The passphrase is right, so the ciphers are too old for OpenSSL 3: macOS keychains still export with RC2.
      ERR_clear_error()
      unsafe OSSL_PROVIDER_try_load(nil, "legacy", 1)
      isParsed = unsafe PKCS12_parse(container, passphrase ?? "", &key, &certificate, &chain) == 1
    }
    guard isParsed else {
      throw TLSError(
        kind: .key, text: "\(file) cannot be opened: \(takeOpenSSLReasons().text); check the passphrase")
    }
    guard let key = unsafe key, let certificate = unsafe certificate else {
      throw TLSError(kind: .file, text: "\(file) holds no certificate with its private key")
    }
    guard unsafe SSL_CTX_use_certificate(context, certificate) == 1 else {
      throw TLSError(kind: .file, text: "the certificate in \(file) cannot be used: \(takeOpenSSLReasons().text)")
    }
    for index in 0..<(unsafe herald_x509_stack_count(chain)) {
      unsafe herald_ssl_ctx_add_chain_certificate(context, herald_x509_stack_value(chain, index))
    }
    try unsafe use(key: key, from: file)
  }

  private func use(key: OpaquePointer, from file: String) throws(TLSError) {
    guard unsafe SSL_CTX_use_PrivateKey(context, key) == 1 else {
      throw TLSError(
        kind: .key, text: "the private key in \(file) does not fit its certificate: \(takeOpenSSLReasons().text)")
    }
  }
}
