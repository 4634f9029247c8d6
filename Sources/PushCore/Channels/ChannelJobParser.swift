/// Parses a message's bytes to a `ChannelJob`, as `config/schemas/channel-request.schema.json` says.
///
/// As for jobs: the AMQP message id may take the place of `id`, an absent field is left out and never null, and an unknown key is an error
/// that names the most similar known key.
package enum ChannelJobParser {
  /// A request contains only ids, names and words.
  package static let bytesMaximum = 16 * 1024

  private static let keys = ["version", "id", "action", "app", "environment", "name", "storage", "channel"]

  private struct Fields {
    var texts: [String: String] = [:]
    var seen: Set<String> = []
    var fault: JobError?

    mutating func fail(_ field: String, _ rule: String) {
      if fault == nil { fault = JobError(field: field, rule: rule) }
    }
  }

  /// - Parameter fallbackID: the AMQP message id, used if there is no `id`; empty if there is none.
  package static func parse(_ bytes: [UInt8], fallbackID: String) throws(ChannelJobFault) -> ChannelJob {
    var fields = Fields()
    var broken: JobError?
    let span = bytes.span
    if bytes.count > bytesMaximum {
      broken = JobError(field: "body", rule: "must be at most \(bytesMaximum) bytes, not \(bytes.count)")
    } else {
      do throws(JSONError) { try scan(span, &fields) } catch { broken = JobError(error, in: span) }
    }
    let id = fields.texts["id"] ?? (fields.seen.contains("id") || fallbackID.isEmpty ? nil : fallbackID)
    let environment = fields.texts["environment"].flatMap { word in
      APNsEnvironment.allCases.first { $0.name == word }
    }
    do throws(JobError) {
      if let fault = broken ?? fields.fault { throw fault }
      return try job(fields, id: id)
    } catch {
      throw ChannelJobFault(
        error: error, id: id.flatMap { 1...Limits.idBytesMaximum ~= $0.utf8.count ? $0 : nil },
        action: fields.texts["action"].flatMap(ChannelJob.Action.init(rawValue:))?.rawValue,
        app: fields.texts["app"].flatMap { AppScope(app: $0, environment: .production)?.app },
        environment: environment)
    }
  }

  // MARK: - JSON

  private static func scan(_ bytes: Span<UInt8>, _ fields: inout Fields) throws(JSONError) {
    var scanner = JSONScanner()
    var hasMember = try scanner.beginObject(bytes)
    while hasMember {
      let key = try scanner.key(bytes)
      let name = key.text(of: bytes)
      let first = scanner.peek(bytes)
      let start = scanner.position
      if !keys.contains(name) {
        let hint = EditDistance.nearest(to: name, among: keys).map { "; did you mean \($0)?" } ?? ""
        fields.fail(JobError.describe(bytes, key: key), "is not a key of a channel request\(hint)")
        try scanner.skipValue(bytes)
      } else if !fields.seen.insert(name).inserted {
        fields.fail(name, "must be there once, not twice")
        try scanner.skipValue(bytes)
      } else if name == "version" {
        let isNumber = first == ASCII.minus || first &- ASCII.zero < 10
        let version = isNumber ? try scanner.number(bytes).whole(in: bytes) : nil
        if !isNumber { try scanner.skipValue(bytes) }
        if version != 1 { fields.fail(name, "must be 1, not \(JobError.describe(bytes, valueAt: start))") }
      } else if first == ASCII.quote {
        fields.texts[name] = try scanner.string(bytes).text(of: bytes)
      } else {
        try scanner.skipValue(bytes)
        fields.fail(name, "must be a string, not \(JobError.describe(bytes, valueAt: start))")
      }
      hasMember = try scanner.nextMember(bytes)
    }
    try scanner.end(bytes)
  }

  // MARK: - Rules

  private static func job(_ fields: Fields, id: String?) throws(JobError) -> ChannelJob {
    guard let id else {
      throw JobError(field: "id", rule: "is missing, and the message has no message_id in its place")
    }
    if let rule = NameText.fault(id, bytesMaximum: Limits.idBytesMaximum) { throw JobError(field: "id", rule: rule) }
    let word = try required(fields, "action")
    guard let action = ChannelJob.Action(rawValue: word) else {
      let known = ChannelJob.Action.allCases.map(\.rawValue).joined(separator: ", ")
      throw JobError(field: "action", rule: "must be one of \(known), not \(JobError.describe(word))")
    }
    let scope = try scope(fields)
    switch action {
    case .create:
      try forbid(fields, ["channel"], action)
      let name = fields.texts["name"] == nil ? nil : try name(fields)
      if name == nil, ChannelName(ofRequest: id) == nil {
        throw JobError(
          field: "id", rule: "must leave room for request: in \(ChannelName.bytesMaximum) bytes, or give a name")
      }
      return ChannelJob(id: id, scope: scope, task: .create(name, try storage(fields)))
    case .ensure:
      try forbid(fields, ["channel"], action)
      return ChannelJob(id: id, scope: scope, task: .ensure(try name(fields), try storage(fields)))
    case .read:
      try forbid(fields, ["storage"], action)
      return ChannelJob(id: id, scope: scope, task: .read(try subject(fields, action)))
    case .delete:
      try forbid(fields, ["storage"], action)
      return ChannelJob(id: id, scope: scope, task: .delete(try subject(fields, action)))
    case .list:
      try forbid(fields, ["storage", "name", "channel"], action)
      return ChannelJob(id: id, scope: scope, task: .list)
    }
  }

  private static func required(_ fields: Fields, _ key: String) throws(JobError) -> String {
    guard let text = fields.texts[key] else { throw JobError(field: key, rule: "is missing") }
    return text
  }

  private static func forbid(_ fields: Fields, _ names: [String], _ action: ChannelJob.Action) throws(JobError) {
    for name in names where fields.texts[name] != nil {
      throw JobError(field: name, rule: "does not go with \(action.rawValue)")
    }
  }

  private static func scope(_ fields: Fields) throws(JobError) -> AppScope {
    let app = try required(fields, "app")
    var environment = APNsEnvironment.production
    if let word = fields.texts["environment"] {
      guard let known = APNsEnvironment.allCases.first(where: { $0.name == word }) else {
        throw JobError(field: "environment", rule: "must be production or sandbox, not \(JobError.describe(word))")
      }
      environment = known
    }
    guard let scope = AppScope(app: app, environment: environment) else {
      throw JobError(
        field: "app",
        rule: """
          must be a bundle id: letters, digits, dots and hyphens, 1 to \(Limits.appBytesMaximum), not "\(JobError.describe(app))"
          """)
    }
    return scope
  }

  private static func name(_ fields: Fields) throws(JobError) -> ChannelName {
    let text = try required(fields, "name")
    guard let name = ChannelName(text) else {
      throw JobError(field: "name", rule: "\(ChannelName.rule), not \"\(JobError.describe(text))\"")
    }
    return name
  }

  private static func storage(_ fields: Fields) throws(JobError) -> StoragePolicy {
    let word = try required(fields, "storage")
    guard let policy = StoragePolicy(name: word) else {
      let known = StoragePolicy.allCases.map(\.name).joined(separator: " or ")
      throw JobError(field: "storage", rule: "must be \(known), not \(JobError.describe(word))")
    }
    return policy
  }

  private static func subject(
    _ fields: Fields, _ action: ChannelJob.Action
  ) throws(JobError) -> ChannelJob.Subject {
    guard let text = fields.texts["channel"] else {
      guard fields.texts["name"] != nil else {
        throw JobError(field: "channel", rule: "is missing; \(action.rawValue) takes a channel, or a name")
      }
      return .name(try name(fields))
    }
    guard fields.texts["name"] == nil else {
      throw JobError(field: "name", rule: "does not go with channel: \(action.rawValue) takes one of them")
    }
    guard let id = ChannelID(text: text) else {
      throw JobError(
        field: "channel",
        rule: "must be a channel id: base64, 1 to \(Limits.channelBytesMaximum), not \"\(JobError.describe(text))\"")
    }
    return .channel(id)
  }
}
