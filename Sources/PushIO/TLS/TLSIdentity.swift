/// Where a client's or server's own certificate and private key come from. Printing it shows no passphrase.
package struct TLSIdentity: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  enum Source: Sendable {
    case pem(certificateFile: String, keyFile: String)
    case pkcs12(file: String)
  }

  let source: Source
  let passphrase: String?

  /// PEM files. The certificate's file may go on with its intermediate certificates; the key's file may be the same
  /// one.
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
