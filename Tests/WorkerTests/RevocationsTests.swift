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
    let unknown = revocations.revoke("nobody", among: try load(["main"]))
    #expect(unknown == [])
    let revoked = revocations.revoke("main", among: try load(["main"]))
    #expect(revoked == ["main"] && revocations.names == ["main"])
    // The file was copied, and its text has other white space: it is still the same key. Or the name was gone for a while.
    try folder.write("\n" + pem + "\n\n", to: "b.p8")
    for next in [try load(["main"]), try load(["main"], file: "b.p8"), try load([]), try load(["main"])] {
      let (ended, left) = replaced(&revocations, by: next)
      #expect(ended == [] && left == ["main"])
    }
  }

  @Test func anotherKey_endsIt() throws {
    var revocations = Revocations()
    let revoked = revocations.revoke("main", among: try load(["main", "other"]))
    let other = String(decoding: try ProviderTokenSigner(newKeyFor: "test").privateKeyPEM(), as: UTF8.self)
    try folder.write(other, to: "a.p8")
    let (ended, left) = replaced(&revocations, by: try load(["main", "other"]))
    #expect(revoked == ["main", "other"] && ended == ["main", "other"] && left == [])
    let stillRevoked = revocations.unrevoke("main")
    #expect(stillRevoked == nil)
  }

  /// Its jobs would go on with the key that leaked.
  @Test func theSameKeyUnderAnotherName_isRevokedToo() throws {
    var revocations = Revocations()
    let other = String(decoding: try ProviderTokenSigner(newKeyFor: "test").privateKeyPEM(), as: UTF8.self)
    try folder.write(other, to: "b.p8")
    func configuration(_ name: String, _ file: String, _ key: String) -> CredentialConfiguration {
      CredentialConfiguration(
        name: name, kind: .token(teamID: "DEF123GHIJ", keyID: key, keyFile: folder.path(file)),
        environments: [.production], apps: ["com.example.\(name)"])
    }
    let all = try Credentials(
      [
        configuration("a", "a.p8", "ABC123DEFG"), configuration("main", "a.p8", "ABC123DEFG"),
        configuration("healthy", "b.p8", "XYZ123DEFG"), configuration("wrong-id", "a.p8", "WRONG12345"),
      ], tokens: tokens)
    let revoked = revocations.revoke("main", among: all)
    #expect(revoked == ["main", "a", "wrong-id"], "the named one first, and not the healthy one")
    #expect(revocations.names == ["main", "a", "wrong-id"])
    let renamed = replaced(&revocations, by: try load(["renamed", "a"]))
    #expect(renamed.ended == [] && renamed.left == ["main", "a", "wrong-id", "renamed"])
    // One name is in use again, and stays so; the command names those that are not.
    let others = revocations.unrevoke("a")
    #expect(others == ["main", "renamed", "wrong-id"])
    let again = replaced(&revocations, by: try load(["renamed", "a"]))
    #expect(again.ended == [] && again.left == ["main", "wrong-id", "renamed"])
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
      let others = revocations.unrevoke(name)
      #expect(others != nil)
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
    let revoked = revocations.revoke("c", among: first)
    let same = replaced(&revocations, by: first)
    #expect(revoked == ["c"] && same.ended == [] && same.left == ["c"])
    let other = replaced(&revocations, by: try certificate())
    #expect(other.ended == ["c"] && other.left == [])
  }

  @Test func readiness_failsWhenAllAreRevoked() throws {
    var revocations = Revocations()
    let both = try load(["main", "other"])
    #expect(revocations.problem(among: both) == nil)
    _ = revocations.revoke("other", among: both)
    #expect(
      revocations.problem(among: both) == "revoked: main, other; configure another key, or run herald unrevoke")
    _ = revocations.unrevoke("main")
    #expect(revocations.problem(among: both) == nil)
  }
}
