import COpenSSL

/// The authorities that clients trust. Loaded once and shared by every context with the same trust: the system's alone take about a
/// megabyte. Immutable once made and usable from any thread, as OpenSSL's stores allow.
///
/// A certificate is trusted if the system trusts it, or if its chain reaches any certificate in the file, whoever signed that one. The two are
/// asked one after the other: in one store, OpenSSL would prefer a certificate of the file to the system's one with the same name, even if
/// that one is expired or has another key.
@safe
package final class TLSTrust: @unchecked Sendable {
  /// The file with additional authorities; nil: there is none.
  package let caFile: String?
  /// The system's authorities; nil: they are not trusted.
  private let system: OpaquePointer?
  private let file: OpaquePointer?

  /// Loads the PEM certificates in `caFile`, and the system's authorities unless `includesSystem` is false. Throws if the file cannot be
  /// read or contains none, and if nothing would be trusted.
  package init(caFile: String? = nil, includesSystem: Bool = true) throws(TLSError) {
    if caFile == nil, !includesSystem {
      throw TLSError(
        kind: .file,
        text: "without the system's authorities nothing is trusted: set ca_file to a file of certificates")
    }
    ERR_clear_error()
    self.caFile = caFile
    unsafe system = unsafe includesSystem ? X509_STORE_new() : nil
    unsafe file = unsafe caFile == nil ? nil : X509_STORE_new()
    if unsafe (includesSystem && system == nil) || (caFile != nil && file == nil) {
      throw TLSError(kind: .system, text: "OpenSSL made no store of certificates: \(takeOpenSSLReasons().text)")
    }
    if includesSystem { unsafe X509_STORE_set_default_paths(system) }
    if let caFile {
      try requireReadable(caFile, "the file of trusted certificates")
      guard unsafe X509_STORE_load_file(file, caFile) == 1 else {
        throw TLSError(
          kind: .file, text: "\(caFile) holds no PEM certificates to trust: \(takeOpenSSLReasons().text)")
      }
      // A certificate that another authority signed is an anchor too.
      unsafe X509_STORE_set_flags(file, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    }
    // If the system has no authorities, or one twice, OpenSSL queues an error here; a failed verification will report it.
    ERR_clear_error()
  }

  deinit {
    unsafe X509_STORE_free(system)
    unsafe X509_STORE_free(file)
  }

  /// Lets a context verify with these authorities. This value must outlive the context.
  func use(in context: OpaquePointer) {
    guard let store = unsafe system ?? file else { preconditionFailure("one of both is trusted") }
    unsafe X509_STORE_up_ref(store)
    unsafe SSL_CTX_set_cert_store(context, store)
    if unsafe system != nil && file != nil {
      unsafe SSL_CTX_set_cert_verify_callback(
        context, TLSCallbacks.chainCame, Unmanaged.passUnretained(self).toOpaque())
    }
  }

  /// Verifies the chain that a peer showed with the file's certificates alone.
  /// - Parameter failed: called with OpenSSL's code and the certificate that it is about, if they do not vouch for it.
  func verifyWithFile(_ chain: OpaquePointer, failed: (Int32, OpaquePointer?) -> Void) -> Bool {
    guard let file = unsafe file, let own = unsafe X509_STORE_CTX_new() else { return false }
    defer {
      unsafe X509_STORE_CTX_free(own)
      // The reasons of a chain that the system may trust would look like those of a failed connection.
      ERR_clear_error()
    }
    guard
      unsafe X509_STORE_CTX_init(own, file, X509_STORE_CTX_get0_cert(chain), X509_STORE_CTX_get0_untrusted(chain)) == 1,
      // The host's name, the purpose and the time.
      unsafe X509_VERIFY_PARAM_set1(X509_STORE_CTX_get0_param(own), X509_STORE_CTX_get0_param(chain)) == 1
    else { return false }
    unsafe X509_STORE_CTX_set_flags(own, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    if unsafe X509_verify_cert(own) == 1 { return true }
    unsafe failed(X509_STORE_CTX_get_error(own), X509_STORE_CTX_get_current_cert(own))
    return false
  }
}
