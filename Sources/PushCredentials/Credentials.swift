package import PushCore
import PushIO
package import PushSettings

/// All loaded credentials, and which one serves a job. Immutable: lanes share it, a reload makes another one.
///
/// The question "who serves (app, environment, push type)?" is answered from a table made beforehand: an open hash table
/// over the apps' bytes whose entries hold the answer for each environment and kind of push, so that a job costs one hash
/// and one comparison, and no String.
package final class Credentials: Sendable {
  /// Pools of one (credential, environment): device tokens, device tokens that were refused before, broadcasts.
  package static let poolKinds = 3
  package static let environments = APNsEnvironment.allCases.count
  /// So that every pool's index fits its 16 bits.
  package static let countMaximum = 4096

  /// An app's place in the hash table.
  private struct Entry: Sendable {
    var hash: UInt64
    var app: Int
  }

  private static let none: Int16 = -1
  private static let several: Int16 = -2
  private static let types = PushType.allCases.count

  /// By place, which pools are numbered by. nil: a credential of an earlier configuration whose place stays empty.
  package let all: [Credential?]
  /// Provider tokens of all of them; process-wide.
  package let tokens: ProviderTokens
  private let entries: [Entry?]
  private let apps: [[UInt8]]
  /// For each app, environment and push type in turn: a credential's place, or why there is none. Topics are those that
  /// the types give.
  private let answers: [Int16]
  /// Some credential may not send every topic: a job with a topic of its own is looked at apart.
  private let hasTopics: Bool

  /// Loads keys and certificates.
  /// - Parameters:
  ///   - caFile: of authorities that APNs' certificates may be of, beside the system's.
  ///   - trustsOnlyCAFile: those of `caFile` alone, and not the system's.
  ///   - tokens: kept over reloads, so that a reload renews no token.
  ///   - previous: the table that this one replaces; credentials that stay keep their place. Where something is wrong, nothing
  ///     of it has changed, nor have `tokens`.
  package convenience init(
    _ configurations: [CredentialConfiguration], caFile: String? = nil, trustsOnlyCAFile: Bool = false,
    tokens: ProviderTokens = ProviderTokens(), replacing previous: Credentials? = nil,
    countMaximum: Int = Credentials.countMaximum
  ) throws(CredentialError) {
    var loaded: [Loaded] = []
    let contexts = TLSContexts(caFile: caFile, trustsOnlyCAFile: trustsOnlyCAFile)
    for configuration in configurations {
      try Credentials.check(configuration, among: configurations)
      loaded.append(try Credentials.load(configuration, contexts: contexts))
    }
    let places = loaded.map { one in
      previous?.all.firstIndex { $0?.name == one.configuration.name && $0?.usesToken == (one.signer != nil) }
    }
    let newCount = places.count { $0 == nil }
    guard (previous?.all.count ?? 0) + newCount <= countMaximum else {
      throw CredentialError(
        credential: loaded.last?.configuration.name ?? "",
        text: "is one of more than \(countMaximum); restart after many reloads")
    }
    self.init(loaded: loaded, at: places, tokens: tokens, replacing: previous)
  }

  /// Loads them for an APNs as the configuration has it: `apns.ca_file` and `apns.ca_only` say who is trusted.
  package convenience init(
    _ configurations: [CredentialConfiguration], for apns: Configuration.APNs,
    tokens: ProviderTokens = ProviderTokens(),
    replacing previous: Credentials? = nil
  ) throws(CredentialError) {
    try self.init(
      configurations, caFile: apns.caFile, trustsOnlyCAFile: apns.trustsOnlyCAFile, tokens: tokens,
      replacing: previous)
  }

  /// Nothing can go wrong any more: only now do keys replace those in use.
  private init(loaded: [Loaded], at places: [Int?], tokens: ProviderTokens, replacing previous: Credentials?) {
    var all: [Credential?] = Array(repeating: nil, count: previous?.all.count ?? 0)
    for (one, place) in zip(loaded, places) {
      let credential = one.credential(tokens)
      if let place { all[place] = credential } else { all.append(credential) }
    }
    self.all = all
    self.tokens = tokens
    hasTopics = all.contains { $0?.topics != nil }
    apps = Credentials.apps(of: all)
    entries = Credentials.hashed(apps)
    answers = Credentials.answers(for: apps, from: all)
  }

  /// The place of a pool's credential.
  package static func place(of pool: PoolIndex) -> Int { Int(pool.value) / (poolKinds * environments) }

  /// Which pool serves the job.
  package func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    let type = job.pushType
    let environment = Int(job.environment.rawValue)
    let bytes = job.bytes.span
    let place: Int
    if !job.credential.isEmpty {
      place = try named(job)
    } else if hasTopics && hasOwnTopic(job) {
      place = try sole(job)
    } else {
      guard let app = find(bytes.extracting(job.app.range)),
        case let answer = answers[
          (app * Credentials.environments + environment) * Credentials.types + Int(type.rawValue)],
        answer >= 0
      else { throw refusal(job) }
      place = Int(answer)
    }
    let kind = job.targetKind == .channel ? 2 : 0
    return PoolIndex(UInt16((place * Credentials.environments + environment) * Credentials.poolKinds + kind))
  }

  /// The topic is not the one that app and push type make; a type without a name makes none.
  private func hasOwnTopic(_ job: borrowing PushJob) -> Bool {
    if job.pushType == .other { return true }
    let suffix = job.pushType.rules.topicSuffix.utf8.count
    if job.topic.count != job.app.count + UInt32(suffix) { return true }
    let bytes = job.bytes.span
    return !ByteHash.areSame(
      bytes.extracting(job.topic.range).extracting(first: Int(job.app.count)), bytes.extracting(job.app.range))
  }

  // MARK: - Loading

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
      if configuration.topics != nil { throw failure("is a certificate, which names its topics itself: no topics") }
    }
    if configuration.topics?.isEmpty == true {
      throw failure("may send no topic: leave topics out for all of its apps")
    }
  }

  /// What the TLS of all credentials has in common, made when first asked for: the authorities, and where there is no certificate to
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

  /// A credential whose key or certificate was read and is good, and which nobody uses yet.
  private struct Loaded {
    let configuration: CredentialConfiguration
    /// nil: it is a certificate.
    let signer: ProviderTokenSigner?
    let tls: TLSContext
    let topics: Set<String>?
    let warnings: [String]

    /// Makes its key known.
    func credential(_ tokens: ProviderTokens) -> Credential {
      let authorization: Credential.Authorization
      switch (configuration.kind, signer) {
      case (.token(let teamID, let keyID, _), let signer?):
        authorization = .token(tokens.register(teamID: teamID, keyID: keyID, signer: signer))
      case (.token, nil), (.certificate, _), (.pkcs12, _):
        authorization = .certificate
      }
      return Credential(
        configuration: configuration, authorization: authorization, tls: tls, topics: topics, warnings: warnings)
    }
  }

  private static func load(
    _ configuration: CredentialConfiguration, contexts: TLSContexts
  ) throws(CredentialError) -> Loaded {
    do {
      let identity: TLSIdentity?
      var signer: ProviderTokenSigner?
      var warnings: [String] = []
      func warn(_ text: String) { warnings.append("credential \"\(configuration.name)\": \(text)") }
      switch configuration.kind {
      case .token(_, _, let keyFile):
        let key = try ProviderTokenSigner(file: keyFile)
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
        // A certificate may be for the topic of one kind alone: com.example.app.voip.
        if !PushType.named.contains(where: { facts?.topics?.contains(app + $0.rules.topicSuffix) == true }) {
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

  // MARK: - The table

  private static func apps(of all: [Credential?]) -> [[UInt8]] {
    var apps: [[UInt8]] = []
    var known: Set<String> = []
    for app in all.flatMap({ $0?.configuration.apps ?? [] }) where known.insert(app).inserted {
      apps.append(Array(app.utf8))
    }
    return apps
  }

  private static func hashed(_ apps: [[UInt8]]) -> [Entry?] {
    var size = 16
    while size < apps.count * 2 { size *= 2 }
    var table: [Entry?] = Array(repeating: nil, count: size)
    for index in apps.indices {
      let app = apps[index]
      let hash = ByteHash.hash(app.span)
      var slot = Int(truncatingIfNeeded: hash) & (size - 1)
      while table[slot] != nil { slot = (slot + 1) & (size - 1) }
      table[slot] = Entry(hash: hash, app: index)
    }
    return table
  }

  private static func answers(for apps: [[UInt8]], from all: [Credential?]) -> [Int16] {
    var answers: [Int16] = []
    for app in apps.map({ String(decoding: $0, as: UTF8.self) }) {
      for environment in APNsEnvironment.allCases {
        let here = all.indices.filter { lists(all[$0], app, environment) }
        for type in PushType.allCases {
          // A type without a name comes with its own topic, which is asked when the job is there.
          let fitting = here.filter { place in
            all[place].map { type == .other ? $0.serves(type) : $0.serves(type, of: app) } ?? false
          }
          answers.append(fitting.count == 1 ? Int16(fitting[0]) : fitting.isEmpty ? none : several)
        }
      }
    }
    return answers
  }

  private static func lists(_ credential: Credential?, _ app: String, _ environment: APNsEnvironment) -> Bool {
    guard let configuration = credential?.configuration else { return false }
    return configuration.environments.contains(environment) && configuration.apps.contains(app)
  }

  private func find(_ app: Span<UInt8>) -> Int? {
    let hash = ByteHash.hash(app)
    var slot = Int(truncatingIfNeeded: hash) & (entries.count - 1)
    while let entry = entries[slot] {
      let known = apps[entry.app]
      if entry.hash == hash, ByteHash.areSame(known.span, app) { return entry.app }
      slot = (slot + 1) & (entries.count - 1)
    }
    return nil
  }

  // MARK: - Who does not serve, and why

  private func named(_ job: borrowing PushJob) throws(RoutingError) -> Int {
    let bytes = job.bytes.span
    let name = Credentials.text(bytes.extracting(job.credential.range))
    let app = Credentials.text(bytes.extracting(job.app.range))
    guard let place = all.firstIndex(where: { $0?.name == name }), let credential = all[place] else {
      throw RoutingError(field: "credential", detail: "no credential is named \"\(name)\"")
    }
    guard credential.configuration.apps.contains(app) else {
      throw RoutingError(field: "credential", detail: "\"\(credential.name)\" does not list app \"\(app)\" in its apps")
    }
    guard credential.configuration.environments.contains(job.environment) else {
      throw RoutingError(
        field: "environment", detail: "credential \"\(credential.name)\" is not for \(job.environment)")
    }
    guard credential.serves(job.pushType) else {
      throw RoutingError(
        field: "credential",
        detail: credential.usesToken
          ? "\"\(credential.name)\" is a signing key; this push type needs a certificate"
          : "\"\(credential.name)\" is a certificate; this push type needs a signing key")
    }
    let topic = Credentials.text(bytes.extracting(job.topic.range))
    guard credential.serves(topic: topic) else {
      throw RoutingError(
        field: "credential",
        detail:
          "\"\(credential.name)\" may not send to topic \"\(topic)\", only to \(Credentials.list(credential.topics))")
    }
    return place
  }

  /// The one credential that serves a job with a topic of its own.
  private func sole(_ job: borrowing PushJob) throws(RoutingError) -> Int {
    let bytes = job.bytes.span
    let app = Credentials.text(bytes.extracting(job.app.range))
    let topic = Credentials.text(bytes.extracting(job.topic.range))
    let environment = job.environment
    let type = job.pushType
    let fitting = all.indices.filter { place in
      guard let credential = all[place], Credentials.lists(credential, app, environment) else { return false }
      return credential.serves(type) && credential.serves(topic: topic)
    }
    guard fitting.count == 1 else { throw refusal(job) }
    return fitting[0]
  }

  private func refusal(_ job: borrowing PushJob) -> RoutingError {
    let bytes = job.bytes.span
    let environment = job.environment
    let type = job.pushType
    let name = Credentials.text(bytes.extracting(job.app.range))
    let listing = all.compactMap { $0 }.filter { $0.configuration.apps.contains(name) }
    guard !listing.isEmpty else {
      return RoutingError(field: "app", detail: "no credential serves \"\(name)\": add it to the apps of one")
    }
    let here = listing.filter { $0.configuration.environments.contains(environment) }
    guard !here.isEmpty else {
      return RoutingError(field: "environment", detail: "no credential serves \"\(name)\" in \(environment)")
    }
    let able = here.filter { $0.serves(type) }
    guard let some = able.first else {
      return RoutingError(
        field: "push_type",
        detail: here[0].usesToken
          ? "needs a certificate, and \"\(name)\" has only signing keys in \(environment)"
          : "needs a signing key, and \"\(name)\" has only certificates in \(environment)")
    }
    let topic = Credentials.text(bytes.extracting(job.topic.range))
    let fitting = able.filter { $0.serves(topic: topic) }
    let names = (fitting.isEmpty ? able : fitting).map { "\"\($0.name)\"" }.joined(separator: ", ")
    guard !fitting.isEmpty else {
      return RoutingError(
        field: "topic",
        detail: able.count == 1
          ? "no credential may send to \"\(topic)\": \(names) may send only to \(Credentials.list(some.topics))"
          : "no credential may send to \"\(topic)\": it is no topic of \(names)")
    }
    return RoutingError(field: "credential", detail: "several serve \"\(name)\" in \(environment): \(names); name one")
  }

  /// Topics for people, cut short.
  private static func list(_ topics: Set<String>?) -> String {
    let sorted = (topics ?? []).sorted()
    return sorted.prefix(5).joined(separator: ", ") + (sorted.count > 5 ? " and \(sorted.count - 5) more" : "")
  }

  private static func text(_ bytes: Span<UInt8>) -> String {
    var copy: [UInt8] = []
    for index in bytes.indices { copy.append(bytes[index]) }
    return String(decoding: copy, as: UTF8.self)
  }
}
