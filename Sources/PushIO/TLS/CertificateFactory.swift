import COpenSSL
import Glibc

/// An in-memory certificate authority (P-256, ECDSA with SHA-256), for tests and for the simulator, which makes its own at each start.
@safe
package final class CertificateFactory {
  /// The contents of a certificate.
  package struct Request: Sendable {
    package var commonName: String
    package var dnsNames: [String]
    package var ipAddresses: [String]
    /// Unix seconds; nil: an hour ago.
    package var notBeforeUnixSeconds: Int64?
    /// Unix seconds; nil: in 30 days.
    package var notAfterUnixSeconds: Int64?
    /// The subject's UID, as in a certificate of APNs.
    package var userID: String?
    /// Topics for Apple's extension 1.2.840.113635.100.6.3.6.
    package var appleTopics: [String] = []

    package init(commonName: String, dnsNames: [String] = [], ipAddresses: [String] = []) {
      self.commonName = commonName
      self.dnsNames = dnsNames
      self.ipAddresses = ipAddresses
    }
  }

  /// The authority's own certificate, for the `ca_file` of those who trust it.
  package let certificatePEM: String
  private let certificate: OpaquePointer
  private let key: OpaquePointer

  /// Makes an authority. It is valid for 30 days, because each start makes a new one.
  package init(commonName: String) throws(TLSError) {
    ERR_clear_error()
    guard let key = unsafe herald_evp_generate_p256(), let certificate = unsafe X509_new() else {
      throw CertificateFactory.failure("a certificate authority")
    }
    unsafe self.key = unsafe key
    unsafe self.certificate = unsafe certificate
    let request = Request(commonName: commonName)
    unsafe CertificateFactory.fill(certificate, request, issuer: certificate, key: key)
    let isSigned =
      unsafe CertificateFactory.add(NID_basic_constraints, "critical,CA:TRUE", to: certificate, issuer: certificate)
      && CertificateFactory.add(NID_key_usage, "critical,keyCertSign,cRLSign", to: certificate, issuer: certificate)
      && CertificateFactory.add(NID_subject_key_identifier, "hash", to: certificate, issuer: certificate)
      && X509_sign(certificate, key, EVP_sha256()) > 0
    certificatePEM = unsafe CertificateFactory.pem { unsafe PEM_write_bio_X509($0, certificate) }
    if !isSigned { throw CertificateFactory.failure("a certificate authority") }
  }

  deinit {
    unsafe X509_free(certificate)
    unsafe EVP_PKEY_free(key)
  }

  /// Makes a key and its certificate, for servers and clients.
  package func issue(_ request: Request) throws(TLSError) -> IssuedCertificate {
    ERR_clear_error()
    let leafKey = unsafe herald_evp_generate_p256()
    let leaf = unsafe X509_new()
    defer {
      unsafe EVP_PKEY_free(leafKey)
      unsafe X509_free(leaf)
    }
    guard let leafKey = unsafe leafKey, let leaf = unsafe leaf else {
      throw CertificateFactory.failure("a certificate for \(request.commonName)")
    }
    unsafe CertificateFactory.fill(leaf, request, issuer: certificate, key: leafKey)
    let names = request.dnsNames.map { "DNS:\($0)" } + request.ipAddresses.map { "IP:\($0)" }
    precondition(!names.contains { $0.utf8.contains(UInt8(ascii: ",")) }, "a name has no comma")
    let isSigned =
      unsafe CertificateFactory.add(NID_basic_constraints, "critical,CA:FALSE", to: leaf, issuer: certificate)
      && CertificateFactory.add(NID_key_usage, "critical,digitalSignature", to: leaf, issuer: certificate)
      && CertificateFactory.add(NID_ext_key_usage, "serverAuth,clientAuth", to: leaf, issuer: certificate)
      && CertificateFactory.add(NID_authority_key_identifier, "keyid", to: leaf, issuer: certificate)
      && (names.isEmpty
        || CertificateFactory.add(NID_subject_alt_name, names.joined(separator: ","), to: leaf, issuer: certificate))
      && CertificateFactory.add(topics: request.appleTopics, to: leaf)
      && X509_sign(leaf, key, EVP_sha256()) > 0
    if !isSigned { throw CertificateFactory.failure("a certificate for \(request.commonName)") }
    return unsafe IssuedCertificate(
      certificatePEM: CertificateFactory.pem { unsafe PEM_write_bio_X509($0, leaf) },
      privateKeyPEM: CertificateFactory.pem {
        unsafe PEM_write_bio_PrivateKey($0, leafKey, nil, nil, 0, nil, nil)
      })
  }

  /// Writes the authority's certificate as PEM.
  package func writeCertificate(to file: String) throws(TLSError) {
    try CertificateFactory.write(certificatePEM.utf8.map { $0 }, to: file, mode: 0o644)
  }

  // MARK: - Parts of a certificate

  private static func fill(
    _ certificate: OpaquePointer, _ request: Request, issuer: OpaquePointer, key: OpaquePointer
  ) {
    var serial: UInt64 = 0
    unsafe withUnsafeMutableBytes(of: &serial) { bytes in
      _ = unsafe RAND_bytes(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), 8)
    }
    let now = Int64(time(nil))
    unsafe X509_set_version(certificate, 2)
    unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1)
    unsafe ASN1_TIME_set(X509_getm_notBefore(certificate), time_t(request.notBeforeUnixSeconds ?? now - 3600))
    unsafe ASN1_TIME_set(X509_getm_notAfter(certificate), time_t(request.notAfterUnixSeconds ?? now + 30 * 86_400))
    let subject = unsafe X509_get_subject_name(certificate)
    unsafe X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8, request.commonName, -1, -1, 0)
    if let userID = request.userID {
      unsafe X509_NAME_add_entry_by_NID(subject, NID_userId, MBSTRING_UTF8, userID, -1, -1, 0)
    }
    unsafe X509_set_issuer_name(certificate, X509_get_subject_name(issuer))
    unsafe X509_set_pubkey(certificate, key)
  }

  private static func add(
    _ identifier: Int32, _ value: String, to certificate: OpaquePointer, issuer: OpaquePointer
  ) -> Bool {
    var context = unsafe v3_ext_ctx()
    unsafe X509V3_set_ctx(&context, issuer, certificate, nil, nil, 0)
    guard let made = unsafe X509V3_EXT_conf_nid(nil, &context, identifier, value) else { return false }
    defer { unsafe X509_EXTENSION_free(made) }
    return unsafe X509_add_ext(certificate, made, -1) == 1
  }

  /// Each with a sequence of its kinds behind it, as Apple does.
  private static func add(topics: [String], to certificate: OpaquePointer) -> Bool {
    if topics.isEmpty { return true }
    let texts = topics.flatMap { topic in
      let kind = "push-type.\(topic.split(separator: ".").last ?? "")"
      return DERTexts.encode(tag: 0x0C, Array(topic.utf8))
        + DERTexts.encode(tag: 0x30, DERTexts.encode(tag: 0x0C, Array(kind.utf8)))
    }
    let value = DERTexts.encode(tag: 0x30, texts)
    let object = unsafe OBJ_txt2obj("1.2.840.113635.100.6.3.6", 1)
    let data = unsafe ASN1_OCTET_STRING_new()
    defer {
      unsafe ASN1_OBJECT_free(object)
      unsafe ASN1_OCTET_STRING_free(data)
    }
    unsafe ASN1_OCTET_STRING_set(data, value, Int32(value.count))
    guard let made = unsafe X509_EXTENSION_create_by_OBJ(nil, object, 0, data) else { return false }
    defer { unsafe X509_EXTENSION_free(made) }
    return unsafe X509_add_ext(certificate, made, -1) == 1
  }

  // MARK: - Texts and files

  private static func pem(_ write: (OpaquePointer?) -> Int32) -> String {
    unsafe String(decoding: OpenSSLMemory.written { unsafe write($0) == 1 }, as: UTF8.self)
  }

  static func write(_ bytes: [UInt8], to file: String, mode: mode_t) throws(TLSError) {
    let descriptor = unsafe open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode)
    guard descriptor >= 0 else {
      throw TLSError(kind: .file, text: "\(file) cannot be written: \(systemErrorText(errno))")
    }
    defer { closeDescriptor(descriptor) }
    var done = 0
    while done < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { bytes in
        unsafe Glibc.write(descriptor, bytes.baseAddress.map { unsafe $0 + done }, bytes.count - done)
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw TLSError(kind: .file, text: "\(file) cannot be written: \(systemErrorText(errno))")
      }
      done += count
    }
  }

  private static func failure(_ what: String) -> TLSError {
    TLSError(kind: .system, text: "\(what) could not be made: \(takeOpenSSLReasons().text)")
  }
}
