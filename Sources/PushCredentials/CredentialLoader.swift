import PushCore
import PushIO
import PushSettings

/// Checks the configured credentials, and reads their keys and certificates.
struct CredentialLoader {
  /// Reads a signing key from its file.
  typealias KeyReader = (String) throws(APNsError) -> ProviderTokenSigner

  private let contexts: TLSContexts
  private let readKey: KeyReader

  /// - Parameters:
  ///   - caFile: authorities that may issue APNs' certificates, in addition to the system's.
  ///   - trustsOnlyCAFile: trust only `caFile`, not the system's authorities.
  init(caFile: String?, trustsOnlyCAFile: Bool) {
    readKey = { file throws(APNsError) in try ProviderTokenSigner(file: file) }
    contexts = TLSContexts(caFile: caFile, trustsOnlyCAFile: trustsOnlyCAFile)
  }

  /// For simulations: keys that are not read from files, and an existing context.
  init(tls: TLSContext, readKey: @escaping KeyReader) {
    self.readKey = readKey
    contexts = TLSContexts(plain: tls)
  }

  /// Loads all of them, in order. Throws at the first error, without any change.
  func load(_ configurations: [CredentialConfiguration]) throws(CredentialError) -> [Loaded] {
    var loaded: [Loaded] = []
    for configuration in configurations {
      try CredentialLoader.check(configuration, among: configurations)
      loaded.append(try load(configuration))
    }
    return loaded
  }

  /// A credential whose key or certificate was read and is valid, but not in use yet.
  struct Loaded {
    let configuration: CredentialConfiguration
    /// nil: it is a certificate.
    let signer: ProviderTokenSigner?
    let tls: TLSContext
    let topics: Set<String>?
    let warnings: [String]

    var usesToken: Bool { signer != nil }

    /// Registers its key.
    func credential(_ tokens: ProviderTokens) -> Credential {
      let authorization: Credential.Authorization
      switch (configuration.kind, signer) {
      case (.token(let teamID, let keyID, _), let signer?):
        authorization = .token(tokens.register(teamID: teamID, keyID: keyID, signer: signer))
      case (.token, nil), (.certificate, _), (.pkcs12, _):
        authorization = .certificate
      }
      return Credential(
        configuration: configuration, authorization: authorization, tls: tls, topics: topics,
        keyDigest: signer.map { SHA256Digest.of($0.publicKeyPEM().span) } ?? tls.certificateFacts?.keyDigest ?? [],
        warnings: warnings)
    }
  }

  private static func check(
    _ configuration: CredentialConfiguration, among all: [CredentialConfiguration]
  ) throws(CredentialError) {
    func failure(_ text: String) -> CredentialError { CredentialError(credential: configuration.name, text: text) }
    if configuration.name.isEmpty { throw failure("has no name") }
    if all.count(where: { $0.name == configuration.name }) > 1 { throw failure("is defined twice: names are unique") }
    if configuration.environments.isEmpty { throw failure("serves no environment: set environments") }
    if configuration.apps.isEmpty { throw failure("serves no app: list bundle ids in apps") }
    if configuration.apps.contains("") { throw failure("lists an empty app") }
    switch configuration.kind {
    case .token(let teamID, let keyID, _):
      if !ProviderTokenSigner.isPlain(teamID) {
        throw failure("team_id \"\(teamID)\" is not an id of letters and digits")
      }
      if !ProviderTokenSigner.isPlain(keyID) { throw failure("key_id \"\(keyID)\" is not an id of letters and digits") }
    case .certificate, .pkcs12:
      if configuration.topics != nil { throw failure("is a certificate, which contains its topics: remove topics") }
    }
    if configuration.topics?.isEmpty == true {
      throw failure("may not send any topic: leave topics out to allow all topics of its apps")
    }
  }

  private func load(_ configuration: CredentialConfiguration) throws(CredentialError) -> Loaded {
    do {
      let identity: TLSIdentity?
      var signer: ProviderTokenSigner?
      var warnings: [String] = []
      func warn(_ text: String) { warnings.append("credential \"\(configuration.name)\": \(text)") }
      switch configuration.kind {
      case .token(_, _, let keyFile):
        let key = try readKey(keyFile)
        if key.isReadableByOthers { warn("\(keyFile) is readable by others; chmod 600 it") }
        signer = key
        identity = nil
      case .certificate(let certificateFile, let privateKeyFile, let passphrase):
        if try KeyFile(path: privateKeyFile).isReadableByOthers {
          warn("\(privateKeyFile) is readable by others; chmod 600 it")
        }
        identity = .pem(certificateFile: certificateFile, keyFile: privateKeyFile, passphrase: passphrase?.revealed)
      case .pkcs12(let file, let passphrase):
        if try KeyFile(path: file).isReadableByOthers { warn("\(file) is readable by others; chmod 600 it") }
        identity = .pkcs12(file: file, passphrase: passphrase?.revealed)
      }
      let tls = try contexts.context(showing: identity)
      let facts = identity == nil ? nil : tls.certificateFacts
      for app in configuration.apps where facts?.topics?.contains(app) == false {
        // A certificate may be for one kind of topic only: com.example.app.voip.
        if !PushType.named.contains(where: { facts?.topics?.contains(app + $0.topicSuffix) == true }) {
          warn("the certificate has no topic of \(app)")
        }
      }
      return Loaded(
        configuration: configuration, signer: signer, tls: tls,
        topics: facts?.topics ?? configuration.topics.map { Set($0) },
        warnings: warnings)
    } catch let error as APNsError {
      throw CredentialError(credential: configuration.name, text: error.description)
    } catch let error as TLSError {
      throw CredentialError(credential: configuration.name, text: error.description)
    } catch {
      throw CredentialError(credential: configuration.name, text: "\(error)")
    }
  }

  /// The TLS context parts that credentials share, made when first needed: the authorities, and without a certificate the whole context.
  /// show, all of it.
  private final class TLSContexts {
    private let caFile: String?
    private let trustsOnlyCAFile: Bool
    private var trust: TLSTrust?
    private var plain: TLSContext?

    init(caFile: String?, trustsOnlyCAFile: Bool) {
      self.caFile = caFile
      self.trustsOnlyCAFile = trustsOnlyCAFile
    }

    init(plain: TLSContext) {
      caFile = nil
      trustsOnlyCAFile = false
      self.plain = plain
    }

    func context(showing certificate: TLSIdentity?) throws(TLSError) -> TLSContext {
      if certificate == nil, let plain { return plain }
      let trust =
        if let known = self.trust { known } else { try TLSTrust(caFile: caFile, includesSystem: !trustsOnlyCAFile) }
      self.trust = trust
      let made = try TLSContext.client(alpn: ["h2"], trust: trust, certificate: certificate)
      if certificate == nil { plain = made }
      return made
    }
  }
}
