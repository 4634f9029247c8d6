import PushSettings

/// A credential to manage channels with: a signing key, or a certificate.
public struct ChannelCredential: Sendable {
  let kind: CredentialConfiguration.Kind

  /// A signing key (`.p8`) with its ids at Apple. Tokens are made from it and renewed by their age.
  public static func signingKey(teamID: String, keyID: String, file: String) -> ChannelCredential {
    ChannelCredential(kind: .token(teamID: teamID, keyID: keyID, keyFile: file))
  }

  /// A certificate and its private key, PEM.
  public static func certificate(
    file: String, privateKeyFile: String, passphrase: String? = nil
  ) -> ChannelCredential {
    ChannelCredential(
      kind: .certificate(
        certificateFile: file, privateKeyFile: privateKeyFile, passphrase: passphrase.map { Secret($0) }))
  }

  /// A certificate and its private key in one PKCS #12 file.
  public static func pkcs12(file: String, passphrase: String? = nil) -> ChannelCredential {
    ChannelCredential(kind: .pkcs12(file: file, passphrase: passphrase.map { Secret($0) }))
  }
}
