import COpenSSL

/// The authorities that clients trust, loaded once and shared by every context that trusts the same: the system's alone are about a
/// megabyte. Immutable after its making, and of no thread: OpenSSL's store is made for that.
@safe
package final class TLSTrust: @unchecked Sendable {
  /// The file of authorities of one's own; nil: there is none.
  package let caFile: String?
  private let store: OpaquePointer

  /// Loads the system's authorities, unless `includesSystem` is false, and those of `caFile`, PEM certificates. Throws where the file
  /// cannot be read or holds none, and where nobody at all would be trusted.
  package init(caFile: String? = nil, includesSystem: Bool = true) throws(TLSError) {
    if caFile == nil, !includesSystem {
      throw TLSError(
        kind: .file,
        text: "without the system's authorities somebody else must be trusted: name a file of certificates in ca_file")
    }
    ERR_clear_error()
    guard let store = unsafe X509_STORE_new() else {
      throw TLSError(kind: .system, text: "OpenSSL made no store of certificates: \(takeOpenSSLReasons().text)")
    }
    self.caFile = caFile
    unsafe self.store = unsafe store
    if includesSystem { unsafe X509_STORE_set_default_paths(store) }
    if let caFile {
      try requireReadable(caFile, "the file of trusted certificates")
      guard unsafe X509_STORE_load_file(store, caFile) == 1 else {
        throw TLSError(
          kind: .file, text: "\(caFile) holds no PEM certificates to trust: \(takeOpenSSLReasons().text)")
      }
    }
    // Where the system has no authorities, or one twice, OpenSSL says so here; verification is who tells the user.
    ERR_clear_error()
  }

  deinit {
    unsafe X509_STORE_free(store)
  }

  /// Lets a context verify with these authorities.
  func use(in context: OpaquePointer) {
    unsafe X509_STORE_up_ref(store)
    unsafe SSL_CTX_set_cert_store(context, store)
  }
}
