import PushCore
import PushSettings

/// Explains to the producer why no credential serves a job. Not on the way of jobs that are served.
struct RoutingRefusal {
  private let all: [Credential]
  private let owners: TopicOwners

  init(among all: [Credential?], _ owners: TopicOwners) {
    self.all = all.compactMap { $0 }
    self.owners = owners
  }

  /// Why the credential that the job names does not serve it.
  func named(_ job: borrowing PushJob) -> RoutingError {
    let bytes = job.bytes.span
    let name = bytes.extracting(job.credential.range).text
    let app = bytes.extracting(job.app.range).text
    guard let credential = all.first(where: { $0.name == name }) else {
      return RoutingError(field: "credential", detail: "no credential is named \"\(name)\"")
    }
    guard credential.configuration.apps.contains(app) else {
      return RoutingError(
        field: "credential", detail: "\"\(credential.name)\" does not list app \"\(app)\" in its apps")
    }
    guard credential.configuration.environments.contains(job.environment) else {
      return RoutingError(
        field: "environment", detail: "credential \"\(credential.name)\" is not for \(job.environment)")
    }
    guard credential.serves(job.pushType) else {
      return RoutingError(
        field: "credential",
        detail: credential.usesToken
          ? "\"\(credential.name)\" is a signing key; this push type needs a certificate"
          : "\"\(credential.name)\" is a certificate; this push type needs a signing key")
    }
    let topic = bytes.extracting(job.topic.range).text
    guard !credential.serves(topic: topic) else { return foreign(topic, app) }
    return RoutingError(
      field: "credential",
      detail:
        "\"\(credential.name)\" may not send to topic \"\(topic)\", only to \(RoutingRefusal.list(credential.topics))")
  }

  /// Why no credential serves a job that names none, or why several do.
  func unnamed(_ job: borrowing PushJob) -> RoutingError {
    let bytes = job.bytes.span
    let environment = job.environment
    let type = job.pushType
    let name = bytes.extracting(job.app.range).text
    let listing = all.filter { $0.configuration.apps.contains(name) }
    guard !listing.isEmpty else {
      return RoutingError(field: "app", detail: "no credential serves \"\(name)\": add it to a credential's apps")
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
    let topic = bytes.extracting(job.topic.range).text
    var fitting = able.filter { $0.serves(topic: topic) }
    if !owners.isOwn(job), !fitting.isEmpty {
      fitting = job.targetKind == .channel ? [] : fitting.filter { $0.lists(topic: topic, owners) }
      if fitting.isEmpty { return foreign(topic, name) }
    }
    let names = (fitting.isEmpty ? able : fitting).map { "\"\($0.name)\"" }.joined(separator: ", ")
    guard !fitting.isEmpty else {
      return RoutingError(
        field: "topic",
        detail: able.count == 1
          ? "no credential may send to \"\(topic)\": \(names) may send only to \(RoutingRefusal.list(some.topics))"
          : "no credential may send to \"\(topic)\": it is no topic of \(names)")
    }
    return RoutingError(field: "credential", detail: "several serve \"\(name)\" in \(environment): \(names); name one")
  }

  private func foreign(_ topic: String, _ app: String) -> RoutingError {
    if let owner = owners.owner(of: topic), topic.hasPrefix(app + ".") {
      return RoutingError(
        field: "topic",
        detail:
          "\"\(topic)\" belongs to app \"\(owner)\", not to \"\(app)\": no credential lists both in its apps or topics")
    }
    return RoutingError(
      field: "topic",
      detail: """
        "\(topic)" does not belong to app "\(app)": it must be the app, or begin with "\(app).", or, but for a broadcast, stand in \
        apps or topics of the credential
        """)
  }

  /// Topics for messages, shortened.
  private static func list(_ topics: Set<String>?) -> String {
    let sorted = (topics ?? []).sorted()
    return sorted.prefix(5).joined(separator: ", ") + (sorted.count > 5 ? " and \(sorted.count - 5) more" : "")
  }
}

extension Span<UInt8> {
  /// A copy as text.
  var text: String {
    var copy: [UInt8] = []
    for index in indices { copy.append(self[index]) }
    return String(decoding: copy, as: UTF8.self)
  }
}
