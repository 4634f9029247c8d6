import Glibc

/// Reads a file with a secret: limits its size, and checks who else may read it.
package struct KeyFile: Sendable {
  /// Larger than any PEM key.
  private static let countMaximum = 64 * 1024

  package let path: String
  package let bytes: [UInt8]
  /// Its group or everybody may read it: warn.
  package let isReadableByOthers: Bool

  package init(path: String) throws(APNsError) {
    self.path = path
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw KeyFile.failure(path, errno) }
    defer { close(descriptor) }
    var facts = stat()
    guard unsafe fstat(descriptor, &facts) == 0 else { throw KeyFile.failure(path, errno) }
    guard facts.st_mode & S_IFMT != S_IFDIR else {
      throw APNsError(kind: .file, subject: path, text: "is a directory, not a key file")
    }
    isReadableByOthers = facts.st_mode & (S_IRGRP | S_IROTH) != 0
    var content = [UInt8](repeating: 0, count: KeyFile.countMaximum + 1)
    var count = 0
    while count < content.count {
      let start = count
      let got = unsafe content.withUnsafeMutableBytes { buffer in
        unsafe read(descriptor, buffer.baseAddress.map { unsafe $0 + start }, buffer.count - start)
      }
      if got < 0 {
        if errno == EINTR { continue }
        throw KeyFile.failure(path, errno)
      }
      if got == 0 { break }
      count += got
    }
    guard count <= KeyFile.countMaximum else {
      throw APNsError(kind: .notAKey, subject: path, text: "is larger than 64 KiB: not a key file")
    }
    content.removeLast(content.count - count)
    bytes = content
  }

  private static func failure(_ path: String, _ code: Int32) -> APNsError {
    switch code {
    case ENOENT:
      APNsError(
        kind: .file, subject: FileName.shown(path),
        text: "no such file: check the path; a relative one starts at the configuration's folder")
    case EACCES:
      APNsError(
        kind: .file, subject: FileName.shown(path), text: "permission denied: let the user that runs herald read it")
    default:
      APNsError(
        kind: .file, subject: FileName.shown(path), text: "cannot be read: \(unsafe String(cString: strerror(code)))")
    }
  }
}
