/// Parses a message's bytes into a `PushJob`, by the contract "Job, version 1": every field, type, range and payload
/// rule that depends on the job alone. Allocates nothing for a valid job once its buffers have grown.
///
/// Decisions where the contract is silent:
/// - A token named twice in `tokens` gets one push.
/// - An optional field must not be null; inside the payload, null counts as absent.
/// - `id` wins over the message id if both are present.
/// - An empty `collapse_id` counts as none.
/// - A broadcast without `expiration` gets its channel's expiration when it is sent.
package struct JobParser: ~Copyable {
  /// What never changes, and takes longer to make than a job to parse. Lanes have their own, so that they share no memory; who parses a
  /// job now and then keeps one for all of its parsers.
  package struct Tables: Sendable {
    fileprivate let scanner = JobScanner()
    fileprivate let pushTypes = KeyTable(PushType.named.map(\.name))
    fileprivate let payloadRules = PayloadRules()

    package init() {}
  }

  private let tables: Tables
  var tokens = TokenSet()

  package init(_ tables: Tables = Tables()) {
    self.tables = tables
  }

  /// Parses `job.bytes[0..<job.bodyCount]` into the job's fields.
  ///
  /// After an error the job has the fields that could be read, such as `id`, `app`, `to` and `meta`, for the outcome.
  /// - Parameter fallbackID: the AMQP message id, which replaces a missing `id`; empty: none.
  package mutating func parse(into job: inout PushJob, fallbackID: Span<UInt8>) throws(JobError) {
    job.clearFields()
    var fields = JobFields()
    var broken: JobError?
    // Moved out of the job while its bytes are read, and back after: a span of the bytes borrows the whole job.
    var targets: [ByteRange] = []
    swap(&targets, &job.targets)
    do throws(JSONError) {
      try tables.scanner.scan(job.bytes.span.extracting(0..<job.bodyCount), &fields, &targets)
    } catch {
      broken = JobError(error, in: job.bytes.span.extracting(0..<job.bodyCount))
    }
    swap(&targets, &job.targets)
    // First the fields that identify the job, whatever is wrong with the rest.
    job.to = fields.to
    job.meta = fields.meta
    job.payload = fields.payload
    job.targetKind = fields.targetKind ?? .token
    job.isDryRun = fields.isDryRun
    job.event = fields.facts.event
    job.app = text(fields.app, &job)
    job.pushTypeName = text(fields.pushType, &job)
    let idFault = setID(&job, fields, fallbackID)
    let environmentFault = setEnvironment(&job, fields.environment)
    let typeFault = setPushType(&job, hasTopic: fields.topic != nil)
    if let fault = broken ?? fields.fault ?? idFault ?? environmentFault {
      job.targets.removeAll(keepingCapacity: true)
      throw fault
    }
    do throws(JobError) {
      try require(fields)
      try checkApp(job)
      if let typeFault { throw typeFault }
      try setTopic(&job, fields.topic)
      job.credential = try credential(fields.credential, &job)
      let rules = PushTypeRules.table[Int(job.pushType.rawValue)]
      job.collapseID = try collapseID(fields.collapseID, rules, &job)
      job.priority = try priority(fields.priority, rules, &job)
      job.expiration = try expiration(fields.expiration, rules, job)
      job.sequence = try sequence(fields.sequence)
      job.tokenRegisteredAt = try tokenRegisteredAt(fields.tokenRegisteredAt)
      switch job.targetKind {
      case .token, .tokens: try checkTokens(&job)
      case .channel:
        try checkChannel(&job)
        if fields.parentID != nil { try checkBroadcast(&job, fields) }
      case .devices, .users, .segment: try checkAudience(&job, rules, hasActivity: fields.activity != nil)
      case .page: try checkPage(&job, fields)
      case .activity: break
      }
      try checkActivity(&job, fields)
      if fields.parentID != nil, job.parentID.isEmpty { throw JobParser.parentFault }
      if job.isDryRun, !job.targetKind.isAudience { throw JobParser.dryRunFault }
      try checkPayload(job, fields.facts, rules)
    } catch {
      job.targets.removeAll(keepingCapacity: true)
      throw error
    }
  }

  /// The range of a string's text: in the body, or after the body if it had escapes.
  func text(_ string: JSONString?, _ job: inout PushJob) -> ByteRange {
    guard let string else { return .empty }
    guard string.hasEscapes else { return string.range }
    return JSONEscape.appendUnescaped(string.range, in: &job.bytes)
  }

  // MARK: Fields

  private static let required = JobKey.app.bit | JobKey.pushType.bit | JobKey.to.bit | JobKey.payload.bit

  private func require(_ fields: JobFields) throws(JobError) {
    guard fields.seen & JobParser.required != JobParser.required else { return }
    for key in JobKey.allCases where JobParser.required & ~fields.seen & key.bit != 0 {
      throw JobError(field: key.name, rule: "is missing")
    }
  }

  /// Whether a message id can be its job's id: anybody can write any bytes there, and the id becomes text in outcomes.
  package static func isID(_ messageID: Span<UInt8>) -> Bool {
    1...Limits.idBytesMaximum ~= messageID.count && UTF8Check.isValid(messageID)
  }

  private func setID(_ job: inout PushJob, _ fields: JobFields, _ fallbackID: Span<UInt8>) -> JobError? {
    let id = fields.id
    if let id {
      let range = text(id, &job)
      let isPart = fields.targetKind == .page || fields.targetKind == .channel && fields.parentID != nil
      let maximum = Limits.idBytesMaximum + (isPart ? Limits.pageNameBytesMaximum : 0)
      if range.count >= 1 && range.count <= maximum {
        job.id = range
        job.idText = id.range
        return nil
      }
    }
    let canFallBack = JobParser.isID(fallbackID)
    if canFallBack {
      let start = job.bytes.count
      for index in 0..<fallbackID.count { job.bytes.append(fallbackID[index]) }
      job.id = ByteRange(start: start, count: fallbackID.count)
    }
    if let id {
      return JobError(field: "id", rule: "must be 1 to \(Limits.idBytesMaximum) bytes, not \(id.range.count)")
    }
    if canFallBack { return nil }
    if fallbackID.isEmpty {
      return JobError(field: "id", rule: "is missing, and the message has no message_id in its place")
    }
    return JobError(
      field: "id",
      rule: "is missing, and the message_id in its place is not UTF-8 of 1 to \(Limits.idBytesMaximum) bytes")
  }

  private func setEnvironment(_ job: inout PushJob, _ environment: JSONString?) -> JobError? {
    guard let environment else { return nil }
    let range = environment.range.range
    for known in APNsEnvironment.allCases where job.bytes.span.extracting(range).equals(known.name) {
      job.environment = known
      return nil
    }
    let shown = JobError.describe(job.bytes.span, environment.range)
    return JobError(field: "environment", rule: "must be production or sandbox, not \(shown)")
  }

  private func setPushType(_ job: inout PushJob, hasTopic: Bool) -> JobError? {
    let index = tables.pushTypes.index(job.bytes.span, job.pushTypeName)
    job.pushType = index.flatMap { PushType(rawValue: UInt8(truncatingIfNeeded: $0)) } ?? .other
    if job.pushType != .other { return nil }
    let bytes = job.bytes.span
    let word = bytes.extracting(job.pushTypeName.range)
    let shown = JobError.describe(bytes, job.pushTypeName)
    guard HeaderText.isName(word), word.count <= Limits.pushTypeBytesMaximum else {
      return JobError(
        .pushTypeForm,
        "must be letters, digits, dots and hyphens, 1 to \(Limits.pushTypeBytesMaximum), not \(shown)")
    }
    if hasTopic { return nil }
    let known = PushType.named.map(\.name).joined(separator: ", ")
    return JobError(.pushTypeKnown, "must be one of \(known), or come with a topic; \(shown) has none")
  }

  private func checkApp(_ job: borrowing PushJob) throws(JobError) {
    let app = job.bytes.span.extracting(job.app.range)
    guard HeaderText.isName(app), app.count <= Limits.appBytesMaximum else {
      let shown = JobError.describe(job.bytes.span, job.app)
      throw JobError(
        .app,
        "must be a bundle id: letters, digits, dots and hyphens, 1 to \(Limits.appBytesMaximum), not \"\(shown)\""
      )
    }
  }

  private func setTopic(_ job: inout PushJob, _ topic: JSONString?) throws(JobError) {
    if topic != nil {
      job.topic = text(topic, &job)
      let word = job.bytes.span.extracting(job.topic.range)
      guard HeaderText.isTopic(word), word.count <= Limits.topicBytesMaximum else {
        let shown = JobError.describe(job.bytes.span, job.topic)
        throw JobError(
          .topic,
          """
          must be letters, digits, hyphens and underscores, in parts with dots between them, 1 to \
          \(Limits.topicBytesMaximum), not "\(shown)"
          """)
      }
      try checkTopicOfType(job)
      return
    }
    let suffix = PushTypeRules.table[Int(job.pushType.rawValue)].topicSuffix
    if suffix.isEmpty {
      job.topic = job.app
      return
    }
    let start = job.bytes.count
    job.bytes.appendOwn(job.app.range)
    job.bytes.append(contentsOf: suffix.utf8)
    job.topic = ByteRange(start: start, count: job.bytes.count - start)
  }

  /// The job's own topic ends as its push type demands: APNs takes no other. A type that we do not know may demand anything.
  private func checkTopicOfType(_ job: borrowing PushJob) throws(JobError) {
    guard job.pushType != .other else { return }
    let bytes = job.bytes.span
    let topic = bytes.extracting(job.topic.range)
    let suffix = job.pushType.topicSuffix
    if !suffix.isEmpty {
      if topic.count > suffix.utf8.count, HeaderText.hasSuffix(topic, suffix) { return }
      throw JobError(
        .topicOfType,
        "must end with \(suffix) for \(name(of: job)), not \"\(JobError.describe(bytes, job.topic))\"")
    }
    // An app or a pass may be called like that.
    if ByteHash.areSame(topic, bytes.extracting(job.app.range)) || HeaderText.hasPrefix(topic, "pass.") { return }
    for type in PushType.named where !type.topicSuffix.isEmpty && HeaderText.hasSuffix(topic, type.topicSuffix) {
      throw JobError(
        .topicOfType,
        "must not end with \(type.topicSuffix), which is for \(type.name), not for \(name(of: job)): leave it out")
    }
  }

  private func credential(_ name: JSONString?, _ job: inout PushJob) throws(JobError) -> ByteRange {
    guard name != nil else { return .empty }
    let range = text(name, &job)
    guard range.count >= 1 && range.count <= Limits.credentialNameBytesMaximum else {
      throw JobError(
        field: "credential", rule: "must be 1 to \(Limits.credentialNameBytesMaximum) bytes, not \(range.count)")
    }
    return range
  }

  private func collapseID(
    _ string: JSONString?, _ rules: PushTypeRules, _ job: inout PushJob
  ) throws(JobError) -> ByteRange {
    guard string != nil else { return .empty }
    let range = text(string, &job)
    guard range.count <= Limits.collapseIDBytesMaximum else {
      throw JobError(
        .collapseIDLength, "must be at most \(Limits.collapseIDBytesMaximum) bytes, not \(range.count)")
    }
    guard HeaderText.isValue(job.bytes.span.extracting(range.range)) else {
      throw JobError(
        .collapseIDForm, "must hold no control characters and no space at its ends: it is a header")
    }
    guard range.isEmpty || rules.takesCollapseID else {
      throw JobError(.collapseIDNone, "must be left out for \(name(of: job)): no push replaces another")
    }
    return range
  }

  private func priority(_ priority: Int64?, _ rules: PushTypeRules, _ job: inout PushJob) throws(JobError) -> UInt8? {
    guard let priority else { return rules.priorityDefault }
    for allowed in rules.priorities where Int64(allowed) == priority { return allowed }
    let words = rules.priorities.map(String.init).joined(separator: ", ")
    throw JobError(
      .priority,
      "must be \(rules.priorities.count > 1 ? "one of " : "")\(words) for \(name(of: job)), not \(priority)")
  }

  private func expiration(
    _ expiration: Int64?, _ rules: PushTypeRules, _ job: borrowing PushJob
  ) throws(JobError) -> Int64? {
    guard let expiration else { return rules.expirationOnly }
    if let only = rules.expirationOnly, expiration != only {
      throw JobError(.expirationOnly, "must be \(only) for \(name(of: job)), not \(expiration)")
    }
    guard expiration >= 0 && expiration <= Limits.unixSecondsMaximum else {
      throw JobError(.expiration, "must be Unix seconds, 0 or more and at most 11 digits, not \(expiration)")
    }
    return expiration
  }

  private func sequence(_ number: Int64?) throws(JobError) -> Int64? {
    guard let number, !(0...Limits.sequenceMaximum ~= number) else { return number }
    throw JobError(field: "sequence", rule: "must be 0 to 2^53 (\(Limits.sequenceMaximum)), not \(number)")
  }

  private func tokenRegisteredAt(_ time: Int64?) throws(JobError) -> Int64? {
    guard let time, time < 0 else { return time }
    throw JobError(field: "token_registered_at", rule: "must be Unix milliseconds, 0 or more, not \(time)")
  }

  // MARK: Targets

  private mutating func checkTokens(_ job: inout PushJob) throws(JobError) {
    for index in job.targets.indices {
      var range = job.targets[index]
      var digits = Hex.classify(job.bytes.span.extracting(range.range))
      if digits == .invalid, hasBackslash(job, range) {
        range = JSONEscape.appendUnescaped(range, in: &job.bytes)
        digits = Hex.classify(job.bytes.span.extracting(range.range))
      }
      let isCountRight =
        range.count >= Limits.tokenDigitsMinimum && range.count <= Limits.tokenDigitsMaximum && range.count & 1 == 0
      guard digits != .invalid && isCountRight else {
        let field = job.targetKind == .token ? "to.token" : "to.tokens[\(index)]"
        let shown = JobError.describe(job.bytes.span, range)
        throw JobError(
          range.isEmpty ? .tokenMissing : .token, field: field,
          """
          must be \(Limits.tokenDigitsMinimum) to \(Limits.tokenDigitsMaximum) hexadecimal digits, an even number, \
          not "\(shown)"
          """)
      }
      if digits == .mixedCase {
        let start = job.bytes.count
        for place in range.range {
          let byte = job.bytes[place]
          // Sets the lower-case bit of a letter; digits have it anyway.
          job.bytes.append(byte | 0x20)
        }
        range = ByteRange(start: start, count: Int(range.count))
      }
      job.targets[index] = range
    }
    guard job.targets.count > 1 else { return }
    var targets: [ByteRange] = []
    swap(&targets, &job.targets)
    tokens.removeRepeated(&targets, in: job.bytes.span)
    swap(&targets, &job.targets)
  }

  func hasBackslash(_ job: borrowing PushJob, _ range: ByteRange) -> Bool {
    for place in range.range where job.bytes[place] == ASCII.backslash { return true }
    return false
  }

  private func checkChannel(_ job: inout PushJob) throws(JobError) {
    // Base64 may hold a slash, and many encoders write it with a backslash.
    if hasBackslash(job, job.targets[0]) {
      job.targets[0] = JSONEscape.appendUnescaped(job.targets[0], in: &job.bytes)
    }
    let range = job.targets[0]
    guard HeaderText.isBase64(job.bytes.span.extracting(range.range)), range.count <= Limits.channelBytesMaximum else {
      let shown = JobError.describe(job.bytes.span, range)
      throw JobError(
        .channel, "must be a channel id: base64, 1 to \(Limits.channelBytesMaximum), not \"\(shown)\"")
    }
    guard job.pushType == .liveactivity else {
      throw JobError(.channelPushType, "takes the push type liveactivity, not \(name(of: job))")
    }
  }

  // MARK: Payload

  private func checkPayload(
    _ job: borrowing PushJob, _ facts: PayloadFacts, _ rules: PushTypeRules
  ) throws(JobError) {
    let isBroadcast = job.targetKind == .channel
    let maximum = isBroadcast ? PushTypeRules.broadcastPayloadBytesMaximum : rules.payloadBytesMaximum
    guard job.payload.count <= maximum else {
      throw JobError(
        .payloadLength, "must be at most \(maximum) bytes for \(name(of: job)), not \(job.payload.count)")
    }
    let isWallet = HeaderText.hasPrefix(job.bytes.span.extracting(job.topic.range), "pass.")
    let violation = tables.payloadRules.violation(
      facts, rules.payload, isWallet: isWallet, isBroadcast: isBroadcast, isOfActivity: !job.activity.isEmpty,
      job.bytes.span.extracting(0..<job.bodyCount), payload: job.payload)
    if let violation { throw violation }
  }

  func name(of job: borrowing PushJob) -> String {
    JobError.describe(job.bytes.span, job.pushTypeName)
  }
}

extension PushJob {
  /// Clears all fields and everything after the body; the buffers keep their capacity.
  fileprivate mutating func clearFields() {
    precondition(bodyCount >= 0 && bodyCount <= bytes.count, "a job's body lies in its bytes")
    bytes.removeLast(bytes.count - bodyCount)
    targets.removeAll(keepingCapacity: true)
    id = .empty
    app = .empty
    pushType = .alert
    pushTypeName = .empty
    environment = .production
    targetKind = .token
    to = .empty
    idText = .empty
    parentID = .empty
    isDryRun = false
    activity = .empty
    activityText = .empty
    event = nil
    revision = 0
    isLeave = false
    fallback = (.empty, .empty)
    if !page.isEmpty { page = AudiencePage() }
    topic = .empty
    credential = .empty
    priority = nil
    expiration = nil
    collapseID = .empty
    sequence = nil
    tokenRegisteredAt = nil
    meta = .empty
    payload = .empty
  }
}
