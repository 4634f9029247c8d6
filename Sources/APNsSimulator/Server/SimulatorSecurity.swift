import PushIO

/// The TLS side of a simulator: a context, and the authority's file if the simulator made it.
struct SimulatorSecurity: Sendable {
  /// nil: plaintext.
  let context: TLSContext?
  let authorityFile: String?
  let authorityPEM: String?

  /// The files in the folder of an own authority.
  static let authorityFileName = "ca.pem"
  static let certificateFileName = "server.pem"
  static let keyFileName = "server-key.pem"

  init(_ options: SimulatorOptions) throws(SimulatorError) {
    do {
      switch options.security.kind {
      case .plaintext:
        context = nil
        authorityFile = nil
        authorityPEM = nil
      case .context(let given):
        context = given
        authorityFile = nil
        authorityPEM = nil
      case .files(let certificate, let key, let clientAuthority):
        context = try TLSContext.server(
          certificateFile: certificate, keyFile: key, alpn: ["h2"], clientCAFile: clientAuthority,
          requiresClientCertificate: false)
        authorityFile = nil
        authorityPEM = nil
      case .ownAuthority(let folder):
        let path = { (name: String) in folder + "/" + name }
        try SimulatorFile.makeFolder(folder)
        let authority = try CertificateFactory(commonName: "APNs simulator CA")
        let leaf = try authority.issue(
          CertificateFactory.Request(
            commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1", "::1"]))
        try authority.writeCertificate(to: path(SimulatorSecurity.authorityFileName))
        try leaf.write(
          certificateFile: path(SimulatorSecurity.certificateFileName), keyFile: path(SimulatorSecurity.keyFileName))
        context = try TLSContext.server(
          certificateFile: path(SimulatorSecurity.certificateFileName), keyFile: path(SimulatorSecurity.keyFileName),
          alpn: ["h2"], clientCAFile: nil)
        authorityFile = path(SimulatorSecurity.authorityFileName)
        authorityPEM = authority.certificatePEM
      }
    } catch {
      throw SimulatorError("TLS: \(error)")
    }
  }
}
