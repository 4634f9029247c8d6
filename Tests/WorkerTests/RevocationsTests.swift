import PushCore
import PushCredentials
import PushIO
import PushSettings
import PushWorker
import TestSupport
import Testing

/// How long a revocation lasts: until the name has another key, or an explicit end.
@Suite struct RevocationsTests {
  private let folder: TemporaryFolder
  private let pem: String
  private let tokens = ProviderTokens()

  init() throws {
    folder = try TemporaryFolder("revocations")
    pem = String(decoding: try ProviderTokenSigner(newKeyFor: "test").privateKeyPEM(), as: UTF8.self)
    try folder.write(pem, to: "a.p8")
  }

  private func load(_ names: [String], file: String = "a.p8", key: String = "ABC123DEFG") throws -> Credentials {
    let configurations = names.map { name in
      CredentialConfiguration(
        name: name, kind: .token(teamID: "DEF123GHIJ", keyID: key, keyFile: folder.path(file)),
        environments: [.production], apps: ["com.example.\(name)"])
    }
    return try Credentials(configurations, tokens: tokens)
  }

  /// Credentials replaced these: the names whose revocation ended, and those that stay revoked.
  private func replaced(
    _ revocations: inout Revocations, by credentials: Credentials
  ) -> (ended: [String], left: Set<String>) {
    (revocations.replaced(by: credentials).ended, revocations.names)
  }

  @Test func aRevocation_outlivesReloadsOfTheSameKey() throws {
    var revocations = Revocations()
    let isKnown = revocations.revoke("nobody", among: try load(["main"]))
    #expect(!isKnown)
    let isRevoked = revocations.revoke("main", among: try load(["main", "other"]))
    #expect(isRevoked && revocations.names == ["main"])
    // The file was copied, and its text has other white space: it is still the same key. Or the name was gone for a while.
    try folder.write("\n" + pem + "\n\n", to: "b.p8")
    for next in [
      try load(["main", "other"]), try load(["main"], file: "b.p8"), try load(["other"]), try load(["main"]),
    ] {
      let (ended, left) = replaced(&revocations, by: next)
      #expect(ended == [] && left == ["main"])
    }
  }

  @Test func anotherKey_endsIt() throws {
    var revocations = Revocations()
    let isRevoked = revocations.revoke("main", among: try load(["main", "other"]))
    let other = String(decoding: try ProviderTokenSigner(newKeyFor: "test").privateKeyPEM(), as: UTF8.self)
    try folder.write(other, to: "a.p8")
    let (ended, left) = replaced(&revocations, by: try load(["main", "other"]))
    #expect(isRevoked && ended == ["main"] && left == [])
    let isEnded = revocations.unrevoke("main")
    #expect(!isEnded)
  }

  @Test func theSameKeyUnderAnotherName_isRevokedToo() throws {
    var revocations = Revocations()
    let both = try load(["main", "other"])
    _ = revocations.revoke("main", among: both)
    #expect(revocations.sharing("main", among: both) == ["other"])
    let renamed = replaced(&revocations, by: try load(["renamed", "other"]))
    #expect(renamed.ended == [] && renamed.left == ["main", "renamed"])
    // It was in use beside the revoked one, and nobody revoked it.
    let again = replaced(&revocations, by: try load(["renamed", "other"]))
    #expect(again.ended == [] && again.left == ["main", "renamed"])
  }

  /// In one reload the revoked name gets a new key, and the leaked one comes back under another; later under the old name again.
  @Test func aRevokedKeyThatComesBack_staysRevoked() throws {
    var revocations = Revocations()
    _ = revocations.revoke("main", among: try load(["main"]))
    let other = String(decoding: try ProviderTokenSigner(newKeyFor: "test").privateKeyPEM(), as: UTF8.self)
    try folder.write(other, to: "b.p8")
    func credentials(_ files: [(name: String, file: String)]) throws -> Credentials {
      try Credentials(
        files.map { entry in
          CredentialConfiguration(
            name: entry.name,
            kind: .token(teamID: "DEF123GHIJ", keyID: "ABC123DEFG", keyFile: folder.path(entry.file)),
            environments: [.production], apps: ["com.example.\(entry.name)"])
        }, tokens: tokens)
    }
    let renamed = revocations.replaced(by: try credentials([("main", "b.p8"), ("old", "a.p8")]))
    #expect(renamed.ended == ["main"] && renamed.begun == ["old"] && revocations.names == ["old"])
    let later = revocations.replaced(by: try credentials([("main", "b.p8"), ("older", "a.p8")]))
    #expect(later.begun == ["older"] && revocations.names == ["old", "older"])
    let back = revocations.replaced(by: try credentials([("main", "a.p8")]))
    #expect(back.ended == [] && back.begun == ["main"])
    for name in ["old", "older", "main"] {
      let wasRevoked = revocations.unrevoke(name)
      #expect(wasRevoked)
    }
    let newest = revocations.replaced(by: try credentials([("newest", "a.p8")]))
    #expect(newest.begun == [], "unrevoke ends it")
  }

  @Test func certificates_areKnownByTheirKey() throws {
    let authority = try CertificateFactory(commonName: "authority")
    func certificate() throws -> Credentials {
      var request = CertificateFactory.Request(commonName: "app")
      request.userID = "com.example.app"
      let issued = try authority.issue(request)
      try issued.write(certificateFile: folder.path("c.pem"), keyFile: folder.path("k.pem"))
      let kind = CredentialConfiguration.Kind.certificate(
        certificateFile: folder.path("c.pem"), privateKeyFile: folder.path("k.pem"), passphrase: nil)
      return try Credentials([
        CredentialConfiguration(name: "c", kind: kind, environments: [.production], apps: ["com.example.app"])
      ])
    }
    var revocations = Revocations()
    let first = try certificate()
    let isRevoked = revocations.revoke("c", among: first)
    let same = replaced(&revocations, by: first)
    #expect(isRevoked && same.ended == [] && same.left == ["c"])
    let other = replaced(&revocations, by: try certificate())
    #expect(other.ended == ["c"] && other.left == [])
  }

  @Test func readiness_failsWhenAllAreRevoked() throws {
    var revocations = Revocations()
    let both = try load(["main", "other"])
    #expect(revocations.problem(among: both) == nil)
    _ = revocations.revoke("main", among: both)
    #expect(revocations.problem(among: both) == nil)
    _ = revocations.revoke("other", among: both)
    #expect(
      revocations.problem(among: both) == "revoked: main, other; configure another key, or run herald unrevoke")
    _ = revocations.unrevoke("main")
    #expect(revocations.problem(among: both) == nil)
  }
}
