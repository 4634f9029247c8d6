/// Turns the notifications of one request into jobs.
///
/// Checks each job with the worker's parser, so that a worker refuses no published job for a fault that is visible here. Reports faults
/// with the names of the request's fields.
struct NotificationReader: ~Copyable {
  typealias Notification = RequestObject<RequestKeys.Notification>
  typealias Activity = RequestObject<RequestKeys.Activity>

  private let application: LiveActivitiesApplication
  private let allowsEveryone: Bool
  private let activities: ActivityWriting
  /// Unix milliseconds.
  private let now: Int64
  private var parser: JobParser
  private var parsed = PushJob()
  /// Names that are already in the plan.
  private var devices: Set<ByteText> = []
  private var users: Set<ByteText> = []
  private var named: Set<SegmentCode> = []
  private var stored: Set<SegmentCode> = []
  private(set) var plan: LiveActivitiesPlan

  init(
    _ application: LiveActivitiesApplication, allowsEveryone: Bool, _ activities: ActivityWriting,
    _ tables: JobParser.Tables, now: Int64
  ) {
    self.application = application
    self.activities = activities
    parser = JobParser(tables)
    self.allowsEveryone = allowsEveryone
    self.now = now
    plan = LiveActivitiesPlan(scope: application.scope)
    plan.codes = []
  }

  // MARK: - Events

  /// - Parameters:
  ///   - isStart: true: the call starts activities. false: it updates and ends them.
  ///   - jobID: the id of the new job.
  mutating func read(_ notification: Notification, isStart: Bool, jobID: String) throws(LiveActivitiesFault) {
    let name = notification.first(of: .liveActivity, .iosLiveActivity) ?? .liveActivity
    let object: Activity? = try notification.object(name)
    guard let object else { throw LiveActivitiesFault(notification.path(of: name), "is missing") }
    let event = try event(object, isStart: isStart)
    if event != .end { try require(object, .contentState) }
    let id = try activityID(notification, isRequired: isStart)
    let target =
      isStart
      ? try NotificationTarget.ofStart(notification, allowsEveryone: allowsEveryone)
      : try NotificationTarget.ofUpdate(notification, isEnd: event == .end)
    var job = MessageWriter()
    let code = MessageCode.text(ofJob: jobID)
    job.add("version", 1)
    job.add("id", jobID)
    job.add("app", application.scope.app)
    job.add("environment", application.scope.environment.name)
    job.add("push_type", "liveactivity")
    switch target {
    case .devices, .users, .segment, .filter: if let id { job.add("activity", id) }
    case .activity, .tokens: break
    }
    job.add("to") { to in to.add(target.member.name, json: target.member.json) }
    if event == .start, let content = try notification.filledText(.content) {
      let alert = try alert(notification, content)
      job.add("fallback") { fallback in
        fallback.add("title", alert.title)
        fallback.add("body", alert.body)
      }
    }
    job.add("meta") { meta in meta.add("message_code", code) }
    job.add("payload", json: try payload(notification, object, event, id))
    try publish(job.finish(), jobID, notification, name)
    plan.codes?.append(code)
    note(target)
    noteIgnored(notification, object, event, target)
  }

  private func event(_ object: Activity, isStart: Bool) throws(LiveActivitiesFault) -> ActivityEvent {
    guard let text = try object.text(.event) else {
      if isStart { return .start }
      throw LiveActivitiesFault(object.path(of: .event), "is missing: update or end")
    }
    switch (text, isStart) {
    case ("start", true): return .start
    case ("update", false): return .update
    case ("end", false): return .end
    default: throw object.wrong(.event, isStart ? "must be start, or left out" : "must be update or end")
    }
  }

  private func activityID(
    _ notification: Notification, isRequired: Bool
  ) throws(LiveActivitiesFault) -> String? {
    let id = isRequired ? try notification.requiredText(.liveActivityID) : try notification.filledText(.liveActivityID)
    if let id, let rule = NameText.fault(id) {
      throw LiveActivitiesFault(notification.path(of: .liveActivityID), rule)
    }
    return id
  }

  private func require(_ object: Activity, _ key: RequestKeys.Activity) throws(LiveActivitiesFault) {
    guard object[key] == nil else { return }
    throw LiveActivitiesFault(object.path(of: key), "is missing")
  }

  // MARK: - Payload

  private func payload(
    _ notification: Notification, _ object: Activity, _ event: ActivityEvent, _ id: String?
  ) throws(LiveActivitiesFault) -> [UInt8] {
    let contentState = try object.rawObject(.contentState)
    let attributes = try object.rawObject(.attributes)
    var alert: LiveActivitiesApplication.Alert?
    if event == .start {
      try require(object, .attributes)
      _ = try object.requiredText(.attributesType)
      if object[.alert] == nil { alert = try self.alert(notification, notification.filledText(.content)) }
    }
    var payload = MessageWriter()
    payload.add("aps") { aps in
      aps.add("timestamp", now / 1000)
      aps.add("event", "\(event)")
      if let contentState { aps.add("content-state", json: contentState) }
      if event == .start, let attributes { aps.add("attributes", json: attributes) }
      if let alert {
        aps.add("alert") { members in
          members.add("title", alert.title)
          members.add("body", alert.body)
        }
      }
      for key in NotificationReader.passedOn(event) {
        if let place = object[key] { aps.add(key.rawValue, json: object.json.raw(at: place)) }
      }
    }
    guard event == .start, let id, let attribute = application.idAttribute, let activity = ActivityID(id) else {
      return payload.finish()
    }
    var edits = ActivityEdits(timestamp: now / 1000)
    edits.id = (activity, attribute)
    do throws(JobError) {
      return try ActivityPayload(payload.finish()).edited(edits)
    } catch {
      throw fault(error, notification, object.path)
    }
  }

  /// Keys whose values are copied to `aps`.
  private static func passedOn(_ event: ActivityEvent) -> [RequestKeys.Activity] {
    switch event {
    case .start: [.attributesType, .alert, .sound, .staleDate, .relevanceScore, .inputPushToken, .inputPushChannel]
    case .update: [.alert, .sound, .staleDate, .relevanceScore]
    case .end: [.alert, .sound, .dismissalDate, .relevanceScore]
    }
  }

  /// A start's alert: from the request, completed from the application's default alert. If neither has a title, the content is also the
  /// title, because APNs requires one.
  private func alert(
    _ notification: Notification, _ content: String?
  ) throws(LiveActivitiesFault) -> LiveActivitiesApplication.Alert {
    let standard = application.defaultAlert
    guard let body = content ?? standard?.body else {
      throw LiveActivitiesFault(
        notification.path(of: .content),
        "is missing: a start shows an alert, and this application has no default_alert; give content, and a title")
    }
    let title = try notification.filledText(.title) ?? standard?.title
    return LiveActivitiesApplication.Alert(title: title ?? body, body: body)
  }

  // MARK: - The plan

  private mutating func publish(
    _ job: [UInt8], _ id: String, _ notification: Notification, _ name: RequestKeys.Notification
  ) throws(LiveActivitiesFault) {
    guard job.count <= Limits.jobBytesMaximum else {
      throw LiveActivitiesFault(notification.path, "makes a \(Limits.refusal(ofJobBytes: job.count))")
    }
    parsed.bytes = job
    parsed.bodyCount = job.count
    let noID: [UInt8] = []
    do throws(JobError) {
      try parser.parse(into: &parsed, fallbackID: noID.span)
      try activities.check(parsed)
    } catch {
      throw fault(error, notification, notification.path(of: name))
    }
    // All jobs use one queue, so that an update does not overtake its start.
    plan.publications.append(.job(id: id, .transactional, job))
  }

  private mutating func note(_ target: NotificationTarget) {
    switch target {
    case .devices(let names):
      for name in names where devices.insert(ByteText(name)).inserted { plan.devices.append(name) }
    case .users(let names): for name in names where users.insert(ByteText(name)).inserted { plan.users.append(name) }
    case .segment(let code): name([code])
    case .filter(let filter, let code):
      guard stored.insert(code).inserted else { return }
      name(filter.segments.sorted())
      plan.segments.append(LiveActivitiesPlan.Segment(code: code, filter: filter))
    case .activity, .tokens: break
    }
  }

  private mutating func name(_ segments: [SegmentCode]) {
    for code in segments where named.insert(code).inserted { plan.namedSegments.append(code) }
  }

  private mutating func noteIgnored(
    _ notification: Notification, _ object: Activity, _ event: ActivityEvent, _ target: NotificationTarget
  ) {
    if event != .end, object[.dismissalDate] != nil { plan.ignored.append(.dismissalDate) }
    if event == .end, object[.staleDate] != nil { plan.ignored.append(.staleDate) }
    if event != .start {
      if notification[.content] != nil { plan.ignored.append(.content) }
      if notification[.title] != nil { plan.ignored.append(.title) }
      if case .tokens = target { return }
      if notification[.pushTokens] != nil { plan.ignored.append(.pushTokens) }
    }
  }

  /// The parser's fault, with the names of the request's fields.
  private func fault(_ error: JobError, _ notification: Notification, _ activity: String) -> LiveActivitiesFault {
    let names = [
      ("payload.aps.", "\(activity)."), ("payload.aps", activity), ("payload", activity),
      ("to.devices", notification.path(of: .devices)), ("to.users", notification.path(of: .users)),
      ("to.tokens", notification.path(of: .pushTokens)), ("fallback", notification.path(of: .content)),
    ]
    for (field, path) in names where error.field.hasPrefix(field) {
      return LiveActivitiesFault(path + error.field.dropFirst(field.count), error.rule)
    }
    return LiveActivitiesFault(notification.path, "cannot become a job: \(error.detail)")
  }
}
