/// The source of a certificate and its private key. Its description has no passphrase.
package struct TLSIdentity: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  enum Source: Sendable {
    case pem(certificateFile: String, keyFile: String)
    case pkcs12(file: String)
  }

  let source: Source
  let passphrase: String?

  /// PEM files. The certificate's file may also contain intermediate certificates; the key may be in the same file.
  package static func pem(certificateFile: String, keyFile: String, passphrase: String? = nil) -> TLSIdentity {
    TLSIdentity(source: .pem(certificateFile: certificateFile, keyFile: keyFile), passphrase: passphrase)
  }

  /// A PKCS#12 file (`.p12`, `.pfx`) with certificate, key and perhaps intermediate certificates.
  package static func pkcs12(file: String, passphrase: String?) -> TLSIdentity {
    TLSIdentity(source: .pkcs12(file: file), passphrase: passphrase)
  }

  package var description: String {
    switch source {
    case .pem(let certificateFile, let keyFile): "certificate \(certificateFile) with key \(keyFile)"
    case .pkcs12(let file): "PKCS#12 file \(file)"
    }
  }

  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
