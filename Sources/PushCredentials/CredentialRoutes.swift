import PushCore
import PushSettings

/// Finds the credential for a job; every job needs it.
///
/// The answer for each (app, environment, push type) is precomputed in an open hash table over the apps' bytes. An entry has the answers
/// for each environment and kind of push, so a job costs one hash and one comparison, and no String.
struct CredentialRoutes: Sendable {
  /// An app's place in the hash table.
  private struct Entry: Sendable {
    var hash: UInt64
    var app: Int
  }

  private static let none: Int16 = -1
  private static let several: Int16 = -2
  private static let environments = APNsEnvironment.allCases.count
  private static let types = PushType.allCases.count

  private let all: [Credential?]
  private let entries: [Entry?]
  private let apps: [[UInt8]]
  /// For each app, environment and push type: a credential's index, or why there is none. Topics are the types' default topics.
  private let answers: [Int16]
  /// Some credential may not send every topic, so a job with a topic of its own needs a separate check.
  private let hasTopics: Bool
  private let owners: TopicOwners

  /// `all`: by index; nil if there is no credential at an index.
  init(to all: [Credential?]) {
    self.all = all
    hasTopics = all.contains { $0?.topics != nil }
    owners = TopicOwners(all.lazy.flatMap { $0?.configuration.apps ?? [] })
    apps = CredentialRoutes.apps(of: all)
    entries = CredentialRoutes.hashed(apps)
    answers = CredentialRoutes.answers(for: apps, from: all)
  }

  /// The index of the job's credential.
  func place(for job: borrowing PushJob) throws(RoutingError) -> Int {
    if !job.credential.isEmpty { return try named(job) }
    if hasOwnTopic(job), hasTopics || !owners.isOwn(job) { return try sole(job) }
    let bytes = job.bytes.span
    guard let app = find(bytes.extracting(job.app.range)),
      case let answer = answers[
        (app * CredentialRoutes.environments + Int(job.environment.rawValue)) * CredentialRoutes.types
          + Int(job.pushType.rawValue)],
      answer >= 0
    else { throw RoutingRefusal(among: all, owners).unnamed(job) }
    return Int(answer)
  }

  /// Whether the job's topic differs from the one of app and push type; a type without a name has none.
  private func hasOwnTopic(_ job: borrowing PushJob) -> Bool {
    if case .other = job.pushType { return true }
    let suffix = job.pushType.topicSuffix.utf8
    if job.topic == job.app { return suffix.count > 0 }
    if job.topic.count != job.app.count + UInt32(suffix.count) { return true }
    let bytes = job.bytes.span
    let topic = bytes.extracting(job.topic.range)
    return !ByteHash.areSame(topic.extracting(first: Int(job.app.count)), bytes.extracting(job.app.range))
      || !ByteHash.areSame(topic.extracting(last: suffix.count), suffix.span)
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

  /// The credential that the job names.
  private func named(_ job: borrowing PushJob) throws(RoutingError) -> Int {
    let bytes = job.bytes.span
    let name = bytes.extracting(job.credential.range).text
    guard let place = all.firstIndex(where: { $0?.name == name }), let credential = all[place],
      CredentialRoutes.lists(credential, bytes.extracting(job.app.range).text, job.environment),
      credential.serves(job.pushType), allows(credential, job)
    else { throw RoutingRefusal(among: all, owners).named(job) }
    return place
  }

  /// Whether a credential may send to the job's topic for the job's app. A broadcast goes to its app: it has no topic of another one.
  private func allows(_ credential: Credential, _ job: borrowing PushJob) -> Bool {
    let topic = job.bytes.span.extracting(job.topic.range).text
    guard credential.serves(topic: topic) else { return false }
    return owners.isOwn(job) || job.targetKind != .channel && credential.lists(topic: topic, owners)
  }

  /// The one credential that serves a job with a topic of its own.
  private func sole(_ job: borrowing PushJob) throws(RoutingError) -> Int {
    let bytes = job.bytes.span
    let app = bytes.extracting(job.app.range).text
    var fitting: [Int] = []
    for place in all.indices {
      guard let credential = all[place], CredentialRoutes.lists(credential, app, job.environment),
        credential.serves(job.pushType), allows(credential, job)
      else { continue }
      fitting.append(place)
    }
    guard fitting.count == 1 else { throw RoutingRefusal(among: all, owners).unnamed(job) }
    return fitting[0]
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
          // A type without a name has a topic of its own, which is checked with the job.
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
}
