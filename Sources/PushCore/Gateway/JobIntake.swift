/// A checked job, ready to be published.
package struct TakenJob: Hashable, Sendable {
  package var body: [UInt8]
  package var id: String
  package var scope: AppScope
  /// Its order matters, and its producer has not numbered it.
  package var needsSequence: Bool
}

/// Checks jobs with the worker's parser before they are published. Adds a missing id, and a missing app and environment from the API key or
/// the query.
package struct JobIntake: ~Copyable {
  /// The sender of a request.
  package struct Sender: Sendable {
    package var key: APIKey
    /// As the request's query names them; nil: not named.
    package var app: String?
    package var environment: String?
    /// The apps of each credential that the gateway's configuration has, by the credential's name.
    package var appsOfCredentials: [String: [String]]
    package var owners: TopicOwners

    package init(
      key: APIKey, app: String?, environment: String?, appsOfCredentials: [String: [String]] = [:],
      owners: TopicOwners = TopicOwners()
    ) {
      self.key = key
      self.app = app
      self.environment = environment
      self.appsOfCredentials = appsOfCredentials
      self.owners = owners
    }
  }

  private static let keys = KeyTable(["id", "app", "environment"])

  private var parser = JobParser()
  private var job = PushJob()
  private let activities: ActivityWriting

  /// - Parameter activities: what workers write into jobs.
  package init(activities: ActivityWriting = ActivityWriting()) {
    self.activities = activities
  }

  /// - Parameter newID: makes the id of a job that has none.
  package mutating func take(
    _ bytes: [UInt8], from sender: Sender, newID: () -> UUIDValue
  ) throws(Problem) -> TakenJob {
    // Before anything of it is read.
    try JobIntake.check(length: bytes.count)
    let members: JSONMembers
    do throws(JSONError) {
      members = try JSONMembers(bytes.span, JobIntake.keys)
    } catch {
      throw Problem(Problem.Fault(JobError(error, in: bytes.span)))
    }
    let scope = try scope(members, sender, bytes)
    var added: [String] = []
    var id = members["id"]?.text
    if members["id"] == nil {
      let new = newID().text
      id = new
      added.append("\"id\":\"\(new)\"")
    }
    if members["app"] == nil { added.append("\"app\":\"\(scope.app)\"") }
    if members["environment"] == nil, scope.environment != .production {
      added.append("\"environment\":\"\(scope.environment.name)\"")
    }
    let body = added.isEmpty ? bytes : members.adding(Array(added.joined(separator: ",").utf8), to: bytes)
    try check(body)
    try checkAuthority(sender)
    guard let id else { throw Problem(Problem.Fault(pointer: "/id", rule: "must be a string")) }
    let needsSequence = job.sequence == nil && (!job.activity.isEmpty || !job.collapseID.isEmpty)
    return TakenJob(body: body, id: id, scope: scope, needsSequence: needsSequence)
  }

  private mutating func scope(
    _ members: JSONMembers, _ sender: Sender, _ body: [UInt8]
  ) throws(Problem) -> AppScope {
    let app = members["app"]?.text
    let environment = members["environment"]?.text
    if let app, let named = sender.app, app != named {
      throw Problem(Problem.Fault(pointer: "/app", rule: "must be the query's app, or be left out"))
    }
    if let environment, let named = sender.environment, environment != named {
      throw Problem(Problem.Fault(pointer: "/environment", rule: "must be the query's environment, or be left out"))
    }
    switch sender.key.scope(app: app ?? sender.app, environment: environment ?? sender.environment) {
    case .success(let scope): return scope
    case .failure(let refusal):
      // What the body names wrongly, the parser says with its place.
      if !refusal.isForbidden, members["app"] != nil || members["environment"] != nil { try check(body) }
      throw Problem(refusal)
    }
  }

  private static func check(length count: Int) throws(Problem) {
    guard count <= Limits.jobBytesMaximum else {
      throw Problem(Problem.Fault(pointer: "", rule: "must be at most \(Limits.jobBytesMaximum) bytes, not \(count)"))
    }
  }

  /// A key of an app sends to no topic of another app, and with no credential of others.
  private func checkAuthority(_ sender: Sender) throws(Problem) {
    guard let app = sender.key.app else { return }
    let bytes = job.bytes.span
    if !sender.owners.isOwn(job) {
      let rule = job.hasTopicOfItsApp ? ", and be no topic of another app" : ""
      let fault = Problem.Fault(
        pointer: "/topic",
        rule: "must be \(app), or begin with it and a dot\(rule), not \(JobError.describe(bytes, job.topic))")
      throw Problem(.forbidden, "the key is for the app \(app): topic \(fault.rule)", faults: [fault])
    }
    if sender.owners.owner(of: app) == nil, !hasSuffixOfPushType(app) {
      let rule =
        "must be \(app), or end with the suffix of a push type: the gateway's configuration has no credential of the app"
      let fault = Problem.Fault(pointer: "/topic", rule: "\(rule), not \(JobError.describe(bytes, job.topic))")
      throw Problem(.forbidden, "the key is for the app \(app): topic \(fault.rule)", faults: [fault])
    }
    guard !job.credential.isEmpty else { return }
    let name = String(decoding: job.bytes[job.credential.range], as: UTF8.self)
    // Workers may have credentials that the gateway's configuration has not: they decide.
    if let apps = sender.appsOfCredentials[name], !apps.contains(app) {
      let fault = Problem.Fault(pointer: "/credential", rule: "must be one whose apps list \(app)")
      throw Problem(.forbidden, "the key is for the app \(app): credential \(fault.rule)", faults: [fault])
    }
  }

  /// Whether the topic of the app's job is no other app's, also where nobody knows what apps there are.
  private func hasSuffixOfPushType(_ app: String) -> Bool {
    let suffix = String(decoding: job.bytes[job.topic.range], as: UTF8.self).dropFirst(app.count)
    return suffix.isEmpty || PushType.named.contains { $0.topicSuffix == suffix }
  }

  private mutating func check(_ body: [UInt8]) throws(Problem) {
    try JobIntake.check(length: body.count)
    job.bytes = body
    job.bodyCount = body.count
    do throws(JobError) {
      let none: [UInt8] = []
      try parser.parse(into: &job, fallbackID: none.span)
      try activities.check(job)
    } catch {
      throw Problem(Problem.Fault(error))
    }
    guard job.targetKind != .page else {
      throw Problem(
        Problem.Fault(pointer: "/to", rule: "must name token, tokens, channel, activity, devices, users or segment"))
    }
    // A worker would count its end for the parent, which may be another app's.
    guard job.parentID.isEmpty else { throw Problem(Problem.Fault(JobParser.parentFault)) }
    guard job.revision == 0 else { throw Problem(Problem.Fault(JobParser.revisionFault)) }
  }
}
