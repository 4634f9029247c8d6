import COpenSSL
import Glibc
import PushCore

/// The fields of a certificate that are used here.
package struct CertificateFacts: Sendable, Equatable {
  /// RFC 2253 text, e.g. `CN=Apple Push Services: com.example.app,UID=com.example.app`.
  package let subject: String
  package let issuer: String
  /// The serial number, hexadecimal digits.
  package let serial: String
  package let commonName: String?
  /// The subject's UID: the app's bundle id in a certificate of APNs.
  package let userID: String?
  /// Unix seconds.
  package let notBeforeUnixSeconds: Int64
  package let notAfterUnixSeconds: Int64
  package let dnsNames: [String]
  /// The topics in Apple's extensions 1.2.840.113635.100.6.3.4 and .6, in their order.
  package let appleTopics: [String]
  /// Kind and length of its key: `RSA 2048`, `EC 256`.
  package let keyText: String
  /// SHA-256 of its public key: a renewed certificate of the same key has the same.
  package let keyDigest: [UInt8]

  /// The only topics that it may send, from its extensions, or from its subject's UID if there are none; nil if it has neither: not a
  /// certificate from Apple.
  package var topics: Set<String>? {
    if !appleTopics.isEmpty { return Set(appleTopics) }
    return userID.map { [$0] }
  }

  /// Reads a certificate, which remains the caller's.
  init(of certificate: OpaquePointer) {
    let subjectName = unsafe X509_get_subject_name(certificate)
    subject = unsafe CertificateFacts.text(of: subjectName)
    issuer = unsafe CertificateFacts.text(of: X509_get_issuer_name(certificate))
    serial = unsafe CertificateFacts.serial(of: certificate)
    commonName = unsafe CertificateFacts.entry(NID_commonName, of: subjectName)
    userID = unsafe CertificateFacts.entry(NID_userId, of: subjectName)
    notBeforeUnixSeconds = unsafe CertificateFacts.unixSeconds(X509_get0_notBefore(certificate))
    notAfterUnixSeconds = unsafe CertificateFacts.unixSeconds(X509_get0_notAfter(certificate))
    dnsNames = unsafe CertificateFacts.dnsNames(of: certificate)
    appleTopics = ["1.2.840.113635.100.6.3.4", "1.2.840.113635.100.6.3.6"].flatMap { identifier in
      unsafe DERTexts(CertificateFacts.extensionBytes(identifier, of: certificate)).texts
    }.filter { $0.contains(".") }
    keyText = unsafe CertificateFacts.keyText(of: certificate)
    keyDigest = unsafe CertificateFacts.keyDigest(of: certificate)
  }

  private static func keyDigest(of certificate: OpaquePointer) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: SHA256Digest.count)
    var count = UInt32(digest.count)
    let isMade = unsafe digest.withUnsafeMutableBufferPointer { target in
      unsafe X509_pubkey_digest(certificate, EVP_sha256(), target.baseAddress, &count) == 1
    }
    return isMade ? digest : []
  }

  private static func keyText(of certificate: OpaquePointer) -> String {
    guard let key = unsafe X509_get0_pubkey(certificate), let name = unsafe EVP_PKEY_get0_type_name(key) else {
      return "unknown"
    }
    return unsafe "\(String(cString: name)) \(EVP_PKEY_get_bits(key))"
  }

  /// The end of its validity as text, in UTC.
  package var notAfterText: String {
    var seconds = time_t(notAfterUnixSeconds)
    var parts = unsafe tm()
    unsafe gmtime_r(&seconds, &parts)
    func padded(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
    return unsafe "\(parts.tm_year + 1900)-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday)) "
      + "\(padded(parts.tm_hour)):\(padded(parts.tm_min)) UTC"
  }

  private static func text(of name: OpaquePointer?) -> String {
    guard let name = unsafe name else { return "" }
    return unsafe String(
      decoding: OpenSSLMemory.written { bio in unsafe herald_x509_name_print(bio, name) >= 0 }, as: UTF8.self)
  }

  private static func entry(_ identifier: Int32, of name: OpaquePointer?) -> String? {
    guard let name = unsafe name else { return nil }
    let index = unsafe X509_NAME_get_index_by_NID(name, identifier, -1)
    guard index >= 0 else { return nil }
    return unsafe text(ofString: X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)))
  }

  private static func text(ofString string: UnsafePointer<ASN1_STRING>?) -> String {
    unsafe String(decoding: bytes(ofString: string), as: UTF8.self)
  }

  private static func bytes(ofString string: UnsafePointer<ASN1_STRING>?) -> [UInt8] {
    guard let string = unsafe string, let start = unsafe ASN1_STRING_get0_data(string) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: start, count: Int(max(0, ASN1_STRING_length(string)))))
  }

  private static func serial(of certificate: OpaquePointer) -> String {
    let bytes = unsafe bytes(ofString: X509_get0_serialNumber(certificate))
    return String(decoding: bytes.flatMap { [Hex.digit($0 >> 4), Hex.digit($0 & 15)] }, as: UTF8.self)
  }

  private static func unixSeconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
    var parts = unsafe tm()
    guard unsafe ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
    return unsafe Int64(timegm(&parts))
  }

  private static func dnsNames(of certificate: OpaquePointer) -> [String] {
    guard let found = unsafe X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) else { return [] }
    let names = OpaquePointer(found)
    defer { unsafe GENERAL_NAMES_free(names) }
    return unsafe (0..<herald_general_names_count(names)).compactMap { index in
      guard let name = unsafe herald_general_names_dns(names, index) else { return nil }
      return unsafe text(ofString: name)
    }
  }

  private static func extensionBytes(_ identifier: String, of certificate: OpaquePointer) -> [UInt8] {
    let object = unsafe OBJ_txt2obj(identifier, 1)
    defer { unsafe ASN1_OBJECT_free(object) }
    let index = unsafe X509_get_ext_by_OBJ(certificate, object, -1)
    guard index >= 0, let found = unsafe X509_get_ext(certificate, index) else { return [] }
    return unsafe bytes(ofString: X509_EXTENSION_get_data(found))
  }
}
