import COpenSSL
import PushCore

/// Encrypts a provider token for shared storage: AES-256-GCM with a random nonce. Any thread may use it.
///
/// A sealed token is the nonce (12 bytes), the ciphertext and the tag (16 bytes). The key that it belongs to is authenticated with it, so a
/// token that was moved to another key's entry does not open.
package final class TokenSeal: Sendable {
  /// Of the key.
  package static let keyByteCount = 32
  private static let nonceCount = 12
  private static let tagCount = 16

  private let key: [UInt8]

  /// `key`: 32 bytes.
  package init(key: [UInt8]) {
    precondition(key.count == TokenSeal.keyByteCount, "AES-256 has keys of 32 bytes")
    self.key = key
  }

  /// Reads a key file: 64 hex digits, as `openssl rand -hex 32` prints them.
  package convenience init(file path: String) throws(APNsError) {
    let file = try KeyFile(path: path)
    let text = file.bytes.filter { !" \t\r\n".utf8.contains($0) }
    guard text.count == TokenSeal.keyByteCount * 2, let key = TokenSeal.bytes(hex: text) else {
      throw APNsError(
        kind: .notAKey, subject: path,
        text: "holds no key of 64 hex digits: make one with `openssl rand -hex 32`")
    }
    self.init(key: key)
  }

  /// nil: OpenSSL failed.
  package func seal(_ text: [UInt8], belongingTo owner: [UInt8]) -> [UInt8]? {
    var nonce = [UInt8](repeating: 0, count: TokenSeal.nonceCount)
    guard unsafe RAND_bytes(&nonce, Int32(nonce.count)) == 1 else { return nil }
    guard let context = unsafe EVP_CIPHER_CTX_new() else { return nil }
    defer { unsafe EVP_CIPHER_CTX_free(context) }
    var sealed = [UInt8](repeating: 0, count: text.count)
    var tag = [UInt8](repeating: 0, count: TokenSeal.tagCount)
    var count: Int32 = 0
    guard unsafe EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
      unsafe EVP_EncryptUpdate(context, nil, &count, owner, Int32(owner.count)) == 1,
      unsafe EVP_EncryptUpdate(context, &sealed, &count, text, Int32(text.count)) == 1, Int(count) == text.count,
      unsafe EVP_EncryptFinal_ex(context, nil, &count) == 1,
      unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tag.count), &tag) == 1
    else {
      ERR_clear_error()
      return nil
    }
    return nonce + sealed + tag
  }

  /// nil: it was sealed with another key, belongs to something else, or was changed.
  package func open(_ sealed: [UInt8], belongingTo owner: [UInt8]) -> [UInt8]? {
    let textCount = sealed.count - TokenSeal.nonceCount - TokenSeal.tagCount
    guard textCount >= 0, let context = unsafe EVP_CIPHER_CTX_new() else { return nil }
    defer { unsafe EVP_CIPHER_CTX_free(context) }
    let nonce = Array(sealed.prefix(TokenSeal.nonceCount))
    let body = Array(sealed.dropFirst(TokenSeal.nonceCount).prefix(textCount))
    var tag = Array(sealed.suffix(TokenSeal.tagCount))
    var text = [UInt8](repeating: 0, count: textCount)
    var count: Int32 = 0
    guard unsafe EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
      unsafe EVP_DecryptUpdate(context, nil, &count, owner, Int32(owner.count)) == 1,
      unsafe EVP_DecryptUpdate(context, &text, &count, body, Int32(body.count)) == 1,
      unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tag.count), &tag) == 1,
      unsafe EVP_DecryptFinal_ex(context, nil, &count) == 1
    else {
      ERR_clear_error()
      return nil
    }
    return text
  }

  private static func bytes(hex text: [UInt8]) -> [UInt8]? {
    var bytes: [UInt8] = []
    for index in stride(from: 0, to: text.count, by: 2) {
      guard let high = Hex.value(text[index]), let low = Hex.value(text[index + 1]) else { return nil }
      bytes.append(high << 4 | low)
    }
    return bytes
  }
}
