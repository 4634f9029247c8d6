import COpenSSL

/// The authorities that clients trust. Loaded once and shared by every context with the same trust: the system's alone take about a
/// megabyte. Immutable once made and usable from any thread, as OpenSSL's store allows.
@safe
package final class TLSTrust: @unchecked Sendable {
  /// The file with additional authorities; nil: there is none.
  package let caFile: String?
  private let store: OpaquePointer

  /// Loads the PEM certificates in `caFile`, and the system's authorities unless `includesSystem` is false. Throws if the file cannot be
  /// read or contains none, and if nothing would be trusted.
  package init(caFile: String? = nil, includesSystem: Bool = true) throws(TLSError) {
    if caFile == nil, !includesSystem {
      throw TLSError(
        kind: .file,
        text: "without the system's authorities nothing is trusted: set ca_file to a file of certificates")
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
    // If the system has no authorities, or one twice, OpenSSL queues an error here; a failed verification will report it.
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
