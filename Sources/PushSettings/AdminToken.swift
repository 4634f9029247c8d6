import PushIO

/// The secret of `admin.token_file`, which every change at the admin port must show.
package struct AdminToken: Sendable {
  /// Why a file gives no token, in the words of its option.
  package struct Failure: Error, Sendable, CustomStringConvertible {
    package let description: String
  }

  /// A shorter one could be guessed.
  private static let countMinimum = 16
  private static let countMaximum = 4096

  /// For the header `Authorization: Bearer …`.
  package let revealed: String

  /// Reads it from its file, without white space around it. It is read for every use, so that a new one holds at once.
  package init(file: String) throws(Failure) {
    let bytes: [UInt8]
    do throws(APNsError) {
      bytes = try KeyFile(path: file).bytes
    } catch {
      throw Failure(description: "admin.token_file: \(FileName.shown(file)): \(error.text)")
    }
    let blanks: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]
    let start = bytes.firstIndex { !blanks.contains($0) } ?? bytes.endIndex
    let end = bytes.lastIndex { !blanks.contains($0) }.map { $0 + 1 } ?? start
    let token = bytes[start..<end]
    guard AdminToken.countMinimum...AdminToken.countMaximum ~= token.count,
      token.allSatisfy({ (0x21...0x7E).contains($0) })
    else {
      throw Failure(
        description:
          """
          admin.token_file: \(file): must hold \(AdminToken.countMinimum) to \(AdminToken.countMaximum) printable characters without \
          spaces, such as those of `openssl rand -hex 32`
          """)
    }
    revealed = String(decoding: token, as: UTF8.self)
  }

  /// Whether a request's `Authorization` shows it. Takes the same time whatever it shows.
  package func isShown(by authorization: String?) -> Bool {
    let words = (authorization ?? "").split(separator: " ", maxSplits: 1)
    guard words.count == 2, words[0].lowercased() == "bearer" else { return false }
    // Digests have one length, so that not even the token's is told.
    let (own, other) = (SHA256Digest.of(revealed.utf8.span), SHA256Digest.of(String(words[1]).utf8.span))
    var difference: UInt8 = 0
    for index in own.indices { difference |= own[index] ^ other[index] }
    return difference == 0
  }
}
