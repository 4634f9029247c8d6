/// Turns a device's call into a registration. Checks it with the worker's parser, and reports faults with the names of the call's fields.
struct DeviceReader {
  typealias Request = RequestObject<RequestKeys.Request>

  private let request: Request
  private let method: LiveActivitiesMethod
  /// Unix milliseconds.
  private let now: Int64
  private(set) var plan: LiveActivitiesPlan

  /// - Parameter scope: the app and environment that the device registers in.
  init(_ request: Request, _ method: LiveActivitiesMethod, scope: AppScope, now: Int64) {
    self.request = request
    self.method = method
    self.now = now
    plan = LiveActivitiesPlan(scope: scope)
  }

  /// The app and environment that a device registers in. Its `gateway` names the environment that its token is valid in; the default is the
  /// application's.
  static func scope(
    _ request: Request, of application: LiveActivitiesApplication
  ) throws(LiveActivitiesFault) -> AppScope {
    guard let word = try request.filledText(.gateway) else { return application.scope }
    let environment = APNsEnvironment.allCases.first { $0.name.hasBytes(of: word) }
    guard let environment, let scope = AppScope(app: application.scope.app, environment: environment) else {
      throw request.wrong(.gateway, "must be sandbox or production")
    }
    return scope
  }

  mutating func read() throws(LiveActivitiesFault) {
    let isActivity = method == .setActivityToken
    var message = MessageWriter()
    message.add("version", 1)
    message.add("kind", isActivity ? Registration.Kind.activity.rawValue : Registration.Kind.device.rawValue)
    message.add("at", now)
    message.add("app", plan.scope.app)
    message.add("environment", plan.scope.environment.name)
    message.add("device", try request.requiredText(.hwid))
    switch method {
    case .registerDevice: try register(&message)
    case .unregisterDevice:
      // Keeps the device and its tags, and removes its tokens.
      message.add("token", json: DeviceReader.null)
      message.add("push_to_start", json: DeviceReader.null)
    case .registerUser: message.add("user", try request.requiredText(.userId))
    case .setTags:
      guard try addTags(&message) else { throw LiveActivitiesFault(request.path(of: .tags), "is missing") }
    case .setActivityToken:
      message.add("activity", try request.requiredText(.activityID))
      // An empty token: the activity ended on this device.
      message.add("token", try presentText(.activityToken))
    case .setActivityPushToStartToken:
      // The call names no attributes type, so the token is registered for all types (`*`).
      let token = try presentText(.startToken)
      message.add("push_to_start") { types in
        if token.isEmpty { types.add("*", json: DeviceReader.null) } else { types.add("*", token) }
      }
    case .startLiveActivity, .updateLiveActivity: preconditionFailure("\(method) is not a device's call")
    }
    try publish(message.finish())
  }

  private static let null = Array("null".utf8)

  /// A required string, which may be empty.
  private func presentText(_ key: RequestKeys.Request) throws(LiveActivitiesFault) -> String {
    guard let text = try request.text(key) else { throw LiveActivitiesFault(request.path(of: key), "is missing") }
    return text
  }

  // MARK: - registerDevice

  private mutating func register(_ message: inout MessageWriter) throws(LiveActivitiesFault) {
    try checkType()
    if let user = try request.filledText(.userId) { message.add("user", user) }
    if let token = try request.filledText(.pushToken) { message.add("token", token) }
    // An invalid description of the device must not prevent the registration of its token: it is left out.
    if let place = request[.language] {
      if let locale = request.json.text(at: place), LocaleText.canonical(locale) != nil {
        message.add("locale", locale)
      } else {
        plan.ignored.append(.language)
      }
    }
    if let place = request[.osVersion] {
      if let version = request.json.text(at: place), OSVersion(text: version) != nil {
        message.add("os_version", version)
      } else {
        plan.ignored.append(.osVersion)
      }
    }
    if let place = request[.timezone] {
      if let name = timeZone(at: place) { message.add("time_zone", name) } else { plan.ignored.append(.timezone) }
    }
    _ = try addTags(&message)
  }

  /// The API's numbers of iOS and macOS.
  private static let types: Set<Int64> = [1, 7]

  private func checkType() throws(LiveActivitiesFault) {
    guard let place = request[.deviceType] else { return }
    let number = request.json.integer(at: place) ?? request.json.text(at: place).flatMap(Int64.init)
    guard let number, DeviceReader.types.contains(number) else {
      throw request.wrong(.deviceType, "must be 1, or 7 for a Mac: only Apple's devices get pushes")
    }
  }

  /// The name of a time zone. An offset in seconds becomes the zone of that many whole hours. nil: neither.
  private func timeZone(at place: Int) -> String? {
    let text = request.json.text(at: place)
    guard let seconds = request.json.integer(at: place) ?? text.flatMap(Int64.init) else {
      return text.flatMap { RegistrationParser.isTimeZone($0) ? $0 : nil }
    }
    guard seconds % 3600 == 0, -12...14 ~= seconds / 3600 else { return nil }
    let hours = seconds / 3600
    // These names have the opposite sign: Etc/GMT-2 is two hours ahead of UTC.
    return hours == 0 ? "Etc/GMT" : "Etc/GMT\(hours > 0 ? "-" : "+")\(hours.magnitude)"
  }

  // MARK: - Tags

  /// Adds the request's tags. false: it has none.
  private func addTags(_ message: inout MessageWriter) throws(LiveActivitiesFault) -> Bool {
    guard let place = request[.tags] else { return false }
    let (json, path) = (request.json, request.path(of: .tags))
    guard let members = json.members(at: place) else { throw request.wrong(.tags, "must be key-value object") }
    guard members.count <= DeviceLimits.tagsMaximum else {
      throw LiveActivitiesFault(path, "must have at most \(DeviceLimits.tagsMaximum) tags")
    }
    var changes: [(name: String, value: [UInt8])] = []
    for member in members {
      let name = json.text(member.key)
      changes.append((name, try DeviceReader.change(json, at: member.value, "\(path).\(JobError.describe(name))")))
    }
    message.add("tags") { tags in
      for change in changes { tags.add(change.name, json: change.value) }
    }
    return true
  }

  /// A tag's value for the registration. In the request, an object is an operation on the tag.
  private static func change(
    _ json: CheckedJSON, at place: Int, _ path: String
  ) throws(LiveActivitiesFault) -> [UInt8] {
    guard json.bytes[place] == ASCII.openBrace else { return Array(json.raw(at: place)) }
    let object = try RequestObject<RequestKeys.TagChange>(json, at: place, path: path)
    guard let operation = try object.text(.operation), let value = object[.value] else {
      throw LiveActivitiesFault(path, "must be a value, or an object with operation and value")
    }
    switch operation {
    case "set" where json.bytes[value] != ASCII.openBrace: return Array(json.raw(at: value))
    case "increment" where json.isNumber(at: value):
      var change = MessageWriter()
      change.add("increment", json: json.raw(at: value))
      return change.finish()
    case "increment": throw object.wrong(.value, "must be a number")
    default: throw object.wrong(.operation, "must be increment or set")
    }
  }

  // MARK: - The plan

  private mutating func publish(_ registration: [UInt8]) throws(LiveActivitiesFault) {
    do throws(JobError) {
      _ = try RegistrationParser.parse(registration, now: now)
    } catch {
      throw fault(error)
    }
    plan.publications = [.registration(registration)]
  }

  /// The parser's fault, with the names of the call's fields.
  private func fault(_ error: JobError) -> LiveActivitiesFault {
    let names: [(field: String, key: RequestKeys.Request)] = [
      ("device", .hwid), ("user", .userId), ("token", method == .setActivityToken ? .activityToken : .pushToken),
      ("push_to_start", .startToken), ("activity", .activityID),
    ]
    if let name = names.first(where: { error.field.hasBytes(of: $0.field) || error.field.hasPrefix("\($0.field).") }) {
      return LiveActivitiesFault(request.path(of: name.key), error.rule)
    }
    return LiveActivitiesFault(error.field, error.rule)
  }
}
