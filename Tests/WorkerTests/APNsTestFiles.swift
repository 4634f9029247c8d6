import PushCore
import PushIO
import TestSupport

/// A signing key, a CA, and certificates of a server and a client, in a folder of their own; and jobs to send.
final class APNsTestFiles {
  let folder: TemporaryFolder
  let signer: ProviderTokenSigner

  var keyFile: String { folder.path("AuthKey.p8") }
  var missingFile: String { folder.path("none.p8") }
  var authorityFile: String { folder.path("authority.pem") }
  var serverCertificateFile: String { folder.path("server.pem") }
  var serverKeyFile: String { folder.path("server.key") }
  var clientCertificateFile: String { folder.path("client.pem") }
  var clientKeyFile: String { folder.path("client.key") }

  init() throws {
    folder = try TemporaryFolder("apns")
    signer = try ProviderTokenSigner(newKeyFor: "test")
    try folder.write(String(decoding: signer.privateKeyPEM(), as: UTF8.self), to: "AuthKey.p8")
    let authority = try CertificateFactory(commonName: "Herald test authority")
    try authority.writeCertificate(to: folder.path("authority.pem"))
    try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1"]))
      .write(certificateFile: folder.path("server.pem"), keyFile: folder.path("server.key"))
    try authority.issue(.init(commonName: "client", dnsNames: [], ipAddresses: []))
      .write(certificateFile: folder.path("client.pem"), keyFile: folder.path("client.key"))
  }

  /// A job as the parser leaves it.
  static func job(
    app: String, token: String, type: PushType = .alert, environment: APNsEnvironment = .production,
    credential: String = "", payload: String = #"{"aps":{"alert":"hello"}}"#
  ) -> PushJob {
    var bytes: [UInt8] = []
    func add(_ text: String) -> ByteRange {
      let start = bytes.count
      bytes.append(contentsOf: Array(text.utf8))
      return ByteRange(start: start, count: text.utf8.count)
    }
    var job = PushJob()
    job.payload = add(payload)
    job.app = add(app)
    job.topic = add(app)
    job.pushType = type
    job.pushTypeName = add("\(type)")
    job.environment = environment
    job.targets = [add(token)]
    job.credential = add(credential)
    job.bytes = bytes
    return job
  }
}

struct APNsTestFailure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}
