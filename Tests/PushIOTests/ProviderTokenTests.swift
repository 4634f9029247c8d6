import PushIO
import Testing

/// Provider tokens: made by the signer, read by the verifier; and the errors for invalid keys.
@Suite struct ProviderTokenTests {
  private func parts(_ token: [UInt8]) -> [String] {
    String(decoding: token, as: UTF8.self).split(separator: ".", omittingEmptySubsequences: false).map(String.init)
  }

  private func failure(_ body: () throws(APNsError) -> Void) -> APNsError? {
    do throws(APNsError) { try body() } catch { return error }
    return nil
  }

  @Test func whatIsSignedIsVerified() throws {
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let verifier = try ProviderTokenVerifier(publicKeyPEM: signer.publicKeyPEM())
    // Signatures differ each time, and r or s is short one time in 128: every one must be 64 bytes.
    for second in 0..<300 {
      let token = try signer.sign(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", issuedAt: 1_437_179_036 + Int64(second))
      let verified = try verifier.verify(token)
      #expect(verified.teamID == Array("DEF123GHIJ".utf8))
      #expect(verified.keyID == Array("ABC123DEFG".utf8))
      #expect(verified.issuedAt == 1_437_179_036 + Int64(second))
      #expect(parts(token)[2].utf8.count == 86)
    }
  }

  @Test func headerAndClaimsAreWhatAppleAsksFor() throws {
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let token = parts(try signer.sign(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", issuedAt: 1_437_179_036))
    // Computed by hand from {"alg":"ES256","kid":"ABC123DEFG"} and {"iss":"DEF123GHIJ","iat":1437179036}.
    #expect(token[0] == "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ")
    #expect(token[1] == "eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNDM3MTc5MDM2fQ")
  }

  @Test func anotherKeysTokenAndAChangedOneAreRefused() throws {
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let other = try ProviderTokenSigner(newKeyFor: "other")
    let token = try signer.sign(teamID: "T", keyID: "K", issuedAt: 1)
    let verifier = try ProviderTokenVerifier(publicKeyPEM: other.publicKeyPEM())
    #expect(failure { () throws(APNsError) in _ = try verifier.verify(token) }?.kind == .wrongSignature)
    let own = try ProviderTokenVerifier(publicKeyPEM: signer.publicKeyPEM())
    let later = try signer.sign(teamID: "T", keyID: "K", issuedAt: 2)
    let mixed = parts(later)[0] + "." + parts(later)[1] + "." + parts(token)[2]
    #expect(failure { () throws(APNsError) in _ = try own.verify(Array(mixed.utf8)) }?.kind == .wrongSignature)
  }

  @Test(arguments: [
    "", "a.b", "a.b.c.d", "!!.e30.AAAA", "e30.e30.AAAA", "..", "eyJhbGciOiJub25lIn0.e30.",
    "eyJhbGciOiJub25lIn0.e30." + String(repeating: "A", count: 86),
    "bm90IGpzb24.e30." + String(repeating: "A", count: 86),
  ])
  func malformedTokensAreRefused(token: String) throws {
    let verifier = try ProviderTokenVerifier(publicKeyPEM: ProviderTokenSigner(newKeyFor: "test").publicKeyPEM())
    #expect(failure { () throws(APNsError) in _ = try verifier.verify(Array(token.utf8)) }?.kind == .malformedToken)
  }

  @Test func aKeySurvivesItsFileForm() throws {
    let signer = try ProviderTokenSigner(newKeyFor: "test")
    let pem = signer.privateKeyPEM()
    #expect(String(decoding: pem, as: UTF8.self).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
    let again = try ProviderTokenSigner(pem: pem, subject: "again")
    #expect(again.publicKeyPEM() == signer.publicKeyPEM())
  }

  @Test func whatIsNoKeySaysSo() {
    func kind(_ pem: String) -> APNsError.Kind? {
      failure { () throws(APNsError) in _ = try ProviderTokenSigner(pem: Array(pem.utf8), subject: "AuthKey.p8") }?.kind
    }
    #expect(kind("") == .notAKey)
    #expect(kind("MIGTAgEAMBMGByqGSM49AgEG") == .notAKey)
    #expect(kind("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n") == .notAKey)
    #expect(kind("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n") == .notAKey)
    #expect(kind("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n") == .encrypted)
    #expect(kind(ProviderTokenTests.rsaKey) == .wrongKind)
    #expect(kind(ProviderTokenTests.p384Key) == .wrongKind)
  }

  /// An environment variable has no line breaks.
  @Test func aKeyWithoutItsLinesSaysSo() throws {
    let pem = try String(decoding: ProviderTokenSigner(newKeyFor: "test").privateKeyPEM(), as: UTF8.self)
    func text(_ pem: String) -> String? {
      failure { () throws(APNsError) in _ = try ProviderTokenSigner(pem: Array(pem.utf8), subject: "AuthKey.p8") }?.text
    }
    #expect(text(pem.replacing("\n", with: "\\n"))?.contains("where its lines must end") == true)
    #expect(text(pem.replacing("\n", with: " "))?.contains("has lost its line breaks") == true)
    #expect(text(pem.replacing("MI", with: "@@"))?.contains("damaged") == true)
  }

  @Test func errorsNameTheFileAndNeverShowTheKey() {
    let missing = failure { () throws(APNsError) in _ = try ProviderTokenSigner(file: "/nonexistent/AuthKey.p8") }
    #expect(missing?.kind == .file)
    #expect(missing?.description.contains("/nonexistent/AuthKey.p8: no such file") == true)
    #expect(failure { () throws(APNsError) in _ = try ProviderTokenSigner(file: "/") }?.kind == .file)
    let wrong = failure { () throws(APNsError) in
      _ = try ProviderTokenSigner(pem: Array(ProviderTokenTests.p384Key.utf8), subject: "AuthKey.p8")
    }
    #expect(wrong?.description.contains("secp384r1") == true)
    #expect(wrong?.description.contains("MIG2") == false)
  }

  // Made for this test with `openssl genpkey`; no service accepts them.
  private static let rsaKey = """
    -----BEGIN PRIVATE KEY-----
    MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBAMFEwJg+OxfIJ6Z/
    SnQ/yB2W1To0zlM7fcafPpn0p3FA3ANI0eDGuH7EOMcwlm74/ARRdfxIWjgTWd56
    4MAXfx1DkY/Q/MKS0XdnNf6HbOV4+LpLwln7mtNlV5mBPgkzfzgO/TtnCGSqKmvi
    GGvPbs1CTqlguUtqJZBCHr2tVz1nAgMBAAECgYAVlK3E0j4a+7ihuNkBfhXEaBFL
    PJZFaQE0ape87Tq9RLbMjxcQeGAll5eXdm912MubV9VK5HFejZqdYy8xg+4njq9m
    2qsWTblsCfytLMiOQS/U2oWdY40PLz/xu/ywbe9w6rxOR+07cJiVeKhAKI5Sg2yw
    GUgu08/pLOs7f/sI0QJBAOUiTLAo/jL8n8UpYBbhz0DSndmOsLU9qN7wzDcXc9P6
    Fn0pkIu8nnPZP+BWRSkLNN6wYvVpWh4qGJJunSuBUX0CQQDX7en9tQTIggM91cvL
    pX8+uPcSnSu3wrqSL6KvBlC3VHnbznRYnpB8R91A4EbyAPpZJsrc7LqnnCQwjFxI
    y7+zAkBb9V4NvQX39Icym55i0JFbFKwhKjElK+/gOYfb/F+SDWaFKO9IBZUaLXCD
    Wlw7UrIPRX8Ruwxd2sstyZLuaOIJAkEAnTaXuyTlCqe+fHMBIpCoiJ5bJa5RekXJ
    WU5dgFl0w0Y6QxOaGju4rwQTz3x7qw+TNv3Ljfa+H/LLVp2bQ1U1iQJBALG1Axc3
    wyhlS0ONvPafUHofnwiWiMMwfuEpoXUHXO5CHwNB8rHhr0OnoEona9oTCKidmN0h
    XlQNZ4iI7Bn6BQY=
    -----END PRIVATE KEY-----
    """
  private static let p384Key = """
    -----BEGIN PRIVATE KEY-----
    MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDCQsKDYSXaPVJ3b8wpW
    yo/9foZZOyWp1ngvJib5L9jCIZiznDyNxGuPiFR+BnLG4YuhZANiAAR7r8DnLdYG
    rdYP6KJhKZhAC1ILUiq87KtlLYl5DJHOBNBJ7KkgOVTPHIGA8PyeQaIQuz8fe5I6
    zrjAlyBl3cTaaUFL8+LvD1o45eAwbaqBZxWfbE4RTe14f2q8ovN1i18=
    -----END PRIVATE KEY-----
    """
}
