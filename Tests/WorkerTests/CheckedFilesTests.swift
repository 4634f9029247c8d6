import PushIO
import PushOperations
import PushSettings
import TestSupport
import Testing

/// The files of the gateway and of the shared provider tokens, as `herald check` finds them.
@Suite struct CheckedFilesTests {
  private let files: TemporaryFolder

  init() throws {
    files = try TemporaryFolder("checked")
  }

  /// What it says of a subject of this configuration; nil: nothing.
  private func finding(_ subject: String, _ configuration: String) throws -> Checker.Finding? {
    let file = try files.write(configuration, to: "herald.yaml")
    var findings: [Checker.Finding] = []
    Checker(try ConfigurationLoader.load(file: file)).run(offline: true) { findings.append($0) }
    return findings.first { $0.subject == subject }
  }

  private func expectFault(_ subject: String, _ configuration: String, _ text: String) throws {
    let found = try finding(subject, configuration)
    #expect(found?.isGood == false && found?.concernsConfiguration == true, "\(String(describing: found))")
    #expect(found?.text.contains(text) == true, "\(String(describing: found))")
  }

  @Test func aKeysFileIsRead() throws {
    #expect(try finding("gateway.keys_file", "gateway: {port: 8080}") == nil)
    func gateway(_ path: String) -> String { "gateway: {keys_file: \"\(path)\"}" }
    try expectFault(
      "gateway.keys_file", gateway("absent/keys.jsonl"),
      "the folder of the keys file \(files.path("absent/keys.jsonl")) cannot be read: No such file or directory")
    try expectFault(
      "gateway.keys_file", gateway("keys.jsonl"),
      "the keys file \(files.path("keys.jsonl")) does not exist: `herald keys create` makes it")
    try files.write("a file\n", to: "file")
    try expectFault("gateway.keys_file", gateway("file/keys.jsonl"), "cannot be read: Not a directory")
    try files.makeFolder("folder")
    try expectFault("gateway.keys_file", gateway("folder"), "cannot be read: Is a directory")
    try expectFault("gateway.keys_file", gateway("file"), "values that are no keys, which do not work: line 1")
    let key = #"{"created_at":1,"hash":"00","id":"abc","scopes":["admin"]}"#
    try files.write("\(key)\n", to: "keys.jsonl")
    let good = try finding("gateway.keys_file", gateway("keys.jsonl"))
    #expect(good?.isGood == true && good?.text == "\(files.path("keys.jsonl")): 1 key", "\(String(describing: good))")
  }

  @Test func theCertificateOfTheGatewayIsRead() throws {
    let configuration = "gateway: {certificate_file: server.pem, private_key_file: server.key, client_ca_file: ca.pem}"
    try expectFault("gateway.certificate_file", configuration, files.path("server.pem"))
    let authority = try CertificateFactory(commonName: "Herald test authority")
    try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"]))
      .write(certificateFile: files.path("server.pem"), keyFile: files.path("server.key"))
    try expectFault("gateway.certificate_file", configuration, files.path("ca.pem"))
    try authority.writeCertificate(to: files.path("ca.pem"))
    let good = try finding("gateway.certificate_file", configuration)
    #expect(good?.isGood == true && good?.text.contains("valid until") == true, "\(String(describing: good))")
    var old = CertificateFactory.Request(commonName: "localhost")
    old.notAfterUnixSeconds = 1_700_000_000
    old.notBeforeUnixSeconds = 1_600_000_000
    try authority.issue(old).write(certificateFile: files.path("server.pem"), keyFile: files.path("server.key"))
    try expectFault("gateway.certificate_file", configuration, "expired on 2023-11-14")
  }

  @Test func theKeyOfSharedProviderTokensIsRead() throws {
    let configuration = "redis: {token_key_file: seal.hex}"
    try expectFault("redis.token_key_file", configuration, "\(files.path("seal.hex")): no such file")
    try files.write("00\n", to: "seal.hex")
    try expectFault("redis.token_key_file", configuration, "holds no key of 64 hex digits")
    try files.write(String(repeating: "0a", count: 32), to: "seal.hex")
    #expect(try finding("redis.token_key_file", configuration)?.isGood == true)
  }
}
