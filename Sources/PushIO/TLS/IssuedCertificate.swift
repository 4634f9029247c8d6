import COpenSSL
import Glibc

/// A certificate with its private key, as PEM. Its description has no key.
package struct IssuedCertificate: Sendable, CustomStringConvertible, CustomReflectable {
  package let certificatePEM: String
  package let privateKeyPEM: String

  package var description: String { "a certificate with its private key" }
  package var customMirror: Mirror { Mirror(self, children: []) }

  /// Writes both as files; only the owner may read the key.
  package func write(certificateFile: String, keyFile: String) throws(TLSError) {
    try CertificateFactory.write(certificatePEM.utf8.map { $0 }, to: certificateFile, mode: 0o644)
    try CertificateFactory.write(privateKeyPEM.utf8.map { $0 }, to: keyFile, mode: 0o600)
  }

  /// Writes both as one PKCS#12 file that only the owner may read.
  package func writePKCS12(file: String, passphrase: String) throws(TLSError) {
    try CertificateFactory.write(pkcs12(passphrase: passphrase), to: file, mode: 0o600)
  }

  private func pkcs12(passphrase: String) throws(TLSError) -> [UInt8] {
    let bytes = unsafe OpenSSLMemory.read(Array(certificatePEM.utf8)) { certificateBIO -> [UInt8] in
      let certificate = unsafe PEM_read_bio_X509(certificateBIO, nil, nil, nil)
      defer { unsafe X509_free(certificate) }
      return unsafe OpenSSLMemory.read(Array(privateKeyPEM.utf8)) { keyBIO -> [UInt8] in
        let key = unsafe PEM_read_bio_PrivateKey(keyBIO, nil, nil, nil)
        defer { unsafe EVP_PKEY_free(key) }
        let container = unsafe PKCS12_create(passphrase, "herald", key, certificate, nil, 0, 0, 0, 0, 0)
        defer { unsafe PKCS12_free(container) }
        guard let container = unsafe container else { return [] }
        return unsafe OpenSSLMemory.written { output in unsafe i2d_PKCS12_bio(output, container) == 1 }
      }
    }
    if bytes.isEmpty {
      throw TLSError(kind: .system, text: "no PKCS#12 file could be made: \(takeOpenSSLReasons().text)")
    }
    return bytes
  }
}
