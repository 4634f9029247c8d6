import Foundation
import PushCore
import PushIO

/// Reads the file's list of credentials, and reports what is wrong with each.
struct CredentialReader {
  private static let keys = [
    "name", "team_id", "key_id", "key_file", "certificate_file", "private_key_file", "p12_file", "passphrase_file",
    "environments", "apps", "topics", "related_key_id",
  ]

  private let file: ConfigurationFile
  private let folder: URL
  private(set) var problems: [ConfigurationError.Problem] = []
  private var entries: [String: ConfigurationFile.Entry] = [:]
  /// `credentials[0]`, and the line where it begins.
  private var path = ""
  private var line: Int?

  init(file: ConfigurationFile, folder: URL) {
    self.file = file
    self.folder = folder
  }

  mutating func read() -> [CredentialConfiguration] {
    var credentials: [CredentialConfiguration] = []
    for (index, item) in file.credentials.enumerated() {
      path = "credentials[\(index)]"
      line = item.line
      guard let itemEntries = item.entries else {
        problem(nil, "must be a mapping of \(Self.keys.joined(separator: ", "))")
        continue
      }
      guard let credential = read(itemEntries) else { continue }
      if credentials.contains(where: { $0.name == credential.name }) {
        problem("name", "must be unique: \(credential.name) is there already")
      }
      credentials.append(credential)
    }
    return credentials
  }

  private mutating func read(_ itemEntries: [ConfigurationFile.Entry]) -> CredentialConfiguration? {
    entries = [:]
    for entry in itemEntries {
      if Self.keys.contains(entry.path) {
        entries[entry.path] = entry
      } else {
        let nearest = NearestName.find(entry.path, in: Self.keys).map { "; did you mean \($0)?" } ?? ""
        problems.append(
          ConfigurationError.Problem(
            origin: file.origin(entry.line), path: "\(path).\(ServiceAddress.hidden(entry.path))",
            text: "unknown key\(nearest)"))
      }
    }
    let name = text("name", "1 to \(Limits.credentialNameBytesMaximum) letters, digits, '.', '_' and '-'") { text in
      (1...Limits.credentialNameBytesMaximum).contains(text.utf8.count)
        && text.utf8.allSatisfy(ConfigurationTextRule.isNameByte)
    }
    let kind = readKind()
    let environments = readEnvironments()
    let apps = readApps()
    let problemCount = problems.count
    let topics = readTopics()
    guard let name, let kind, let environments, let apps, problems.count == problemCount else { return nil }
    return CredentialConfiguration(
      name: name, kind: kind, environments: environments, apps: apps, topics: topics,
      relatedKeyID: readRelatedKeyID(kind))
  }

  private mutating func readKind() -> CredentialConfiguration.Kind? {
    let main = ["key_file", "certificate_file", "p12_file"].filter { entries[$0] != nil }
    guard main.count == 1 else {
      let found = main.isEmpty ? "none" : main.joined(separator: " and ")
      problem(nil, "must have exactly one of key_file, certificate_file and p12_file, not \(found)")
      return nil
    }
    switch main[0] {
    case "key_file":
      forbid(["private_key_file", "passphrase_file"], beside: "key_file")
      let rule = "10 capital letters and digits, as Apple shows it"
      let team = text("team_id", rule, where: isAppleID)
      let key = text("key_id", rule, where: isAppleID)
      guard let keyFile = filePath("key_file"), let team, let key else { return nil }
      return .token(teamID: team, keyID: key, keyFile: keyFile)
    case "certificate_file":
      forbid(["team_id", "key_id", "topics"], beside: "certificate_file")
      let certificate = filePath("certificate_file")
      let key = filePath("private_key_file")
      let passphrase = passphrase()
      guard let certificate, let key else { return nil }
      return .certificate(certificateFile: certificate, privateKeyFile: key, passphrase: passphrase)
    default:
      forbid(["team_id", "key_id", "private_key_file", "topics"], beside: "p12_file")
      let passphrase = passphrase()
      guard let archive = filePath("p12_file") else { return nil }
      return .pkcs12(file: archive, passphrase: passphrase)
    }
  }

  private mutating func readRelatedKeyID(_ kind: CredentialConfiguration.Kind) -> String? {
    guard let entry = entries["related_key_id"] else { return nil }
    if case .null = entry.input { return nil }
    guard case .token(_, let keyID, _) = kind else {
      problem("related_key_id", "applies to a key only, not to a certificate: remove it")
      return nil
    }
    let rule = "the id of another key: 10 capital letters and digits"
    let related = text("related_key_id", rule, where: isAppleID)
    return related == keyID ? refuse(entry, rule) : related
  }

  /// Both if the file does not say.
  private mutating func readEnvironments() -> [APNsEnvironment]? {
    guard let entry = entries["environments"] else { return [.production, .sandbox] }
    let rule = "a list of production and sandbox, each at most once"
    guard let names = list(entry), !names.isEmpty, Set(names).count == names.count else { return refuse(entry, rule) }
    var environments: [APNsEnvironment] = []
    for name in names {
      switch name {
      case "production": environments.append(.production)
      case "sandbox": environments.append(.sandbox)
      default: return refuse(entry, rule)
      }
    }
    return environments
  }

  private mutating func readApps() -> [String]? {
    let rule = "a list of one or more bundle ids (letters, digits, '.', '_' and '-'), each once"
    guard let entry = entries["apps"] else {
      problem("apps", "is missing: \(rule)")
      return nil
    }
    return names(entry, rule, bytesMaximum: Limits.appBytesMaximum)
  }

  /// nil if the key may send all topics.
  private mutating func readTopics() -> [String]? {
    guard let entry = entries["topics"], entries["key_file"] != nil else { return nil }
    if case .null = entry.input { return nil }
    return names(
      entry, "a list of one or more topics (letters, digits, '.', '_' and '-'), each once, or null",
      bytesMaximum: Limits.topicBytesMaximum)
  }

  private mutating func names(_ entry: ConfigurationFile.Entry, _ rule: String, bytesMaximum: Int) -> [String]? {
    guard let names = list(entry), !names.isEmpty, Set(names).count == names.count else { return refuse(entry, rule) }
    for name in names {
      guard (1...bytesMaximum).contains(name.utf8.count), name.utf8.allSatisfy(ConfigurationTextRule.isNameByte)
      else { return refuse(entry, rule) }
    }
    return names
  }

  // MARK: Fields

  private mutating func text(_ key: String, _ rule: String, where accepts: (String) -> Bool) -> String? {
    guard let entry = entries[key] else {
      problem(key, "is missing: \(rule)")
      return nil
    }
    guard case .scalar(let text, _) = entry.input, accepts(text) else { return refuse(entry, rule) }
    return text
  }

  private mutating func filePath(_ key: String) -> String? {
    text(key, ConfigurationTextRule.file.description, where: ConfigurationTextRule.file.accepts)
      .map { ConfigurationLoader.resolve($0, in: folder) }
  }

  /// The contents of the passphrase file, without the final newline.
  private mutating func passphrase() -> Secret? {
    guard let entry = entries["passphrase_file"] else { return nil }
    if case .null = entry.input { return nil }
    guard let path = filePath("passphrase_file") else { return nil }
    guard let data = FileManager.default.contents(atPath: path), let text = String(data: data, encoding: .utf8) else {
      problem("passphrase_file", "cannot read the file \(FileName.shown(path))")
      return nil
    }
    return Secret(text.trimmingCharacters(in: .newlines))
  }

  private func list(_ entry: ConfigurationFile.Entry) -> [String]? {
    guard case .list(let items) = entry.input else { return nil }
    let texts = items.compactMap { item in if case .scalar(let text, _) = item { text } else { nil } }
    return texts.count == items.count ? texts : nil
  }

  private mutating func forbid(_ keys: [String], beside main: String) {
    for key in keys {
      guard let entry = entries[key] else { continue }
      if case .null = entry.input { continue }
      problem(key, "does not apply to \(main): remove one of the two")
    }
  }

  private func isAppleID(_ text: String) -> Bool {
    text.utf8.count == 10
      && text.utf8.allSatisfy {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
      }
  }

  /// Reports that a field breaks its rule.
  private mutating func refuse<Value>(_ entry: ConfigurationFile.Entry, _ rule: String) -> Value? {
    if case .scalar(let text, _) = entry.input, ConfigurationTextRule.isSecret(text) {
      problem(entry.path, "must be \(rule), not \(ConfigurationTextRule.secret)")
    } else {
      problem(entry.path, "must be \(rule), not \(entry.input.hidden(isURL: false))")
    }
    return nil
  }

  private mutating func problem(_ key: String?, _ text: String) {
    let place = key.flatMap { entries[$0]?.line } ?? line
    problems.append(
      ConfigurationError.Problem(
        origin: file.origin(place), path: key.map { "\(path).\($0)" } ?? path, text: text))
  }
}
