/// OpenSSL's reasons for a failure. Its texts never contain keys or passphrases.
import COpenSSL
import Glibc

/// The reasons that OpenSSL queued for this thread, oldest first; the queue is empty afterwards.
func takeOpenSSLReasons() -> (text: String, codes: [Int32]) {
  var texts: [String] = []
  var codes: [Int32] = []
  while true {
    let error = ERR_get_error()
    if error == 0 { break }
    codes.append(ERR_GET_REASON(error))
    if let reason = unsafe ERR_reason_error_string(error) {
      let text = unsafe String(cString: reason)
      if texts.last != text { texts.append(text) }
    }
  }
  return (texts.isEmpty ? "no reason given" : texts.joined(separator: ", "), codes)
}

/// Throws if a file cannot be read.
func requireReadable(_ file: String, _ what: String) throws(TLSError) {
  guard unsafe access(file, R_OK) == 0 else {
    let code = errno
    throw TLSError(kind: .file, text: "\(what) \(FileName.shown(file)) cannot be read: \(systemErrorText(code))")
  }
}
