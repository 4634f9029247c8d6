import COpenSSL

/// A private or public elliptic-curve key on P-256, held by OpenSSL. Immutable, so any thread may use it.
@safe
final class ProviderKey: SigningKey, @unchecked Sendable {
  /// Owned; freed with this object.
  private let key: OpaquePointer

  /// A private key from PEM (PKCS#8 `PRIVATE KEY`, or `EC PRIVATE KEY`). `subject` names it in errors.
  init(privatePEM pem: [UInt8], subject: String) throws(APNsError) {
    guard ProviderKey.contains(pem, "-----BEGIN ") else {
      throw APNsError(
        kind: .notAKey, subject: subject,
        text: "is not PEM: expected the .p8 file from Apple's developer site, as it is")
    }
    if ProviderKey.contains(pem, "ENCRYPTED") {
      throw APNsError(
        kind: .encrypted, subject: subject,
        text: "is encrypted: APNs signing keys are not; decrypt it with `openssl pkey -in … -out …`")
    }
    guard ProviderKey.contains(pem, "PRIVATE KEY-----") else {
      throw APNsError(kind: .notAKey, subject: subject, text: "holds no private key: expected `BEGIN PRIVATE KEY`")
    }
    // Never prompts for a passphrase: an answer of length 0 refuses.
    let parsed = unsafe OpenSSLMemory.read(pem) { bio in
      unsafe PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil)
    }
    guard let parsed = unsafe parsed else {
      ERR_clear_error()
      let fault =
        ProviderKey.contains(pem, "\\n")
        ? #"has "\n" where its lines must end: an environment variable does that; `printf '%b'` turns them into line breaks"#
        : ProviderKey.contains(pem, "KEY-----\n") || ProviderKey.contains(pem, "KEY-----\r")
          ? "holds a damaged private key: download or copy it again"
          : "has lost its line breaks: the lines BEGIN and END stand alone, as in Apple's file"
      throw APNsError(kind: .notAKey, subject: subject, text: fault)
    }
    unsafe key = parsed
    try check(subject)
  }

  /// A public key from PEM (`PUBLIC KEY`).
  init(publicPEM pem: [UInt8], subject: String) throws(APNsError) {
    let parsed = unsafe OpenSSLMemory.read(pem) { bio in unsafe PEM_read_bio_PUBKEY(bio, nil, nil, nil) }
    guard let parsed = unsafe parsed else {
      ERR_clear_error()
      throw APNsError(kind: .notAKey, subject: subject, text: "holds no PEM public key: expected `BEGIN PUBLIC KEY`")
    }
    unsafe key = parsed
    try check(subject)
  }

  /// A new private key.
  init() throws(APNsError) {
    let context = unsafe EVP_PKEY_CTX_new_from_name(nil, "EC", nil)
    defer { unsafe EVP_PKEY_CTX_free(context) }
    var made: OpaquePointer?
    guard unsafe EVP_PKEY_keygen_init(context) == 1,
      unsafe EVP_PKEY_CTX_set_group_name(context, "P-256") == 1,
      unsafe EVP_PKEY_generate(context, &made) == 1, let made = unsafe made
    else {
      ERR_clear_error()
      throw APNsError(kind: .system, subject: "new signing key", text: "OpenSSL could not make a P-256 key")
    }
    unsafe key = made
  }

  deinit {
    unsafe EVP_PKEY_free(key)
  }

  private func check(_ subject: String) throws(APNsError) {
    guard unsafe EVP_PKEY_get_base_id(key) == EVP_PKEY_EC else {
      let isRSA = unsafe EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA
      throw APNsError(
        kind: .wrongKind, subject: subject,
        text: "holds \(isRSA ? "an RSA" : "another kind of") key: ES256 needs an elliptic-curve key on P-256")
    }
    var name = [CChar](repeating: 0, count: 80)
    var count = 0
    let isNamed = unsafe EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1
    let curve = String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard isNamed, curve == "prime256v1" else {
      throw APNsError(
        kind: .wrongKind, subject: subject,
        text: "holds a key on \(isNamed ? curve : "an unnamed curve"): ES256 needs P-256 (prime256v1)")
    }
  }

  /// The ES256 signature of `message`: r and s, 32 bytes each. nil: OpenSSL failed.
  func sign(_ message: [UInt8]) -> [UInt8]? {
    let context = unsafe EVP_MD_CTX_new()
    defer { unsafe EVP_MD_CTX_free(context) }
    var encoded = [UInt8](repeating: 0, count: 80)
    var count = encoded.count
    guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
      unsafe EVP_DigestSign(context, &encoded, &count, message, message.count) == 1
    else {
      ERR_clear_error()
      return nil
    }
    let signature = unsafe encoded.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      return unsafe d2i_ECDSA_SIG(nil, &cursor, count)
    }
    guard let signature = unsafe signature else { return nil }
    defer { unsafe ECDSA_SIG_free(signature) }
    var raw = [UInt8](repeating: 0, count: 64)
    let isWritten = unsafe raw.withUnsafeMutableBufferPointer { buffer in
      guard let base = buffer.baseAddress else { return false }
      return unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), base, 32) == 32
        && BN_bn2binpad(ECDSA_SIG_get0_s(signature), base + 32, 32) == 32
    }
    return isWritten ? raw : nil
  }

  /// Whether `signature` (r and s, 32 bytes each) is this key's signature of `message`.
  func verify(_ signature: [UInt8], of message: [UInt8]) -> Bool {
    guard signature.count == 64, let parts = unsafe ECDSA_SIG_new() else { return false }
    defer { unsafe ECDSA_SIG_free(parts) }
    let isSet = unsafe signature.withUnsafeBufferPointer { buffer in
      guard let base = buffer.baseAddress else { return false }
      // Owned by `parts` from here on.
      return unsafe ECDSA_SIG_set0(parts, BN_bin2bn(base, 32, nil), BN_bin2bn(base + 32, 32, nil)) == 1
    }
    var encoded: UnsafeMutablePointer<UInt8>?
    let count = unsafe i2d_ECDSA_SIG(parts, &encoded)
    defer { unsafe CRYPTO_free(encoded, #file, #line) }
    guard isSet, count > 0, let encoded = unsafe encoded else { return false }
    let context = unsafe EVP_MD_CTX_new()
    defer { unsafe EVP_MD_CTX_free(context) }
    let isValid =
      unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
      && EVP_DigestVerify(context, encoded, Int(count), message, message.count) == 1
    ERR_clear_error()
    return isValid
  }

  /// PEM of the public half.
  func publicPEM() -> [UInt8] {
    unsafe OpenSSLMemory.written { bio in unsafe PEM_write_bio_PUBKEY(bio, self.key) == 1 }
  }

  /// PEM (PKCS#8, not encrypted) of a private key.
  func privatePEM() -> [UInt8] {
    unsafe OpenSSLMemory.written { bio in
      unsafe PEM_write_bio_PKCS8PrivateKey(bio, self.key, nil, nil, 0, nil, nil) == 1
    }
  }

  private static func contains(_ bytes: [UInt8], _ text: StaticString) -> Bool {
    let needle = unsafe UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    guard bytes.count >= needle.count else { return false }
    for start in 0...(bytes.count - needle.count) where unsafe bytes[start...].starts(with: needle) { return true }
    return false
  }
}
