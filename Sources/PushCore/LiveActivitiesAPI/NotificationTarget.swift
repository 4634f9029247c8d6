/// The target of a notification.
enum NotificationTarget: Hashable {
  /// Ids or tokens of devices.
  case devices([String])
  case users([String])
  case segment(SegmentCode)
  /// A filter in the request, and its code.
  case filter(SegmentFilter, SegmentCode)
  /// All devices with the activity.
  case activity(String)
  /// Update tokens.
  case tokens([String])

  /// All devices of the app, in its environment.
  static let allDevices = NotificationTarget(.any([.leaf(.hasToken), .not(.leaf(.hasToken))]))

  private init(_ filter: SegmentFilter) { self = .filter(filter, NotificationTarget.code(of: filter)) }

  /// The member of a job's `to`.
  var member: (name: String, json: [UInt8]) {
    var json: [UInt8] = []
    switch self {
    case .devices(let names): json.append(jsonStrings: names)
    case .users(let names): json.append(jsonStrings: names)
    case .tokens(let names): json.append(jsonStrings: names)
    case .activity(let id): json.append(jsonString: id)
    case .segment(let code): json.append(jsonString: code.text)
    case .filter(_, let code): json.append(jsonString: code.text)
    }
    return (name, json)
  }

  private var name: String {
    switch self {
    case .devices: "devices"
    case .users: "users"
    case .tokens: "tokens"
    case .activity: "activity"
    case .segment, .filter: "segment"
    }
  }

  /// The code that the filter is stored under. Equal filters have the same code.
  private static func code(of filter: SegmentFilter) -> SegmentCode {
    let json = filter.json
    var hash = SipHash128(key0: 0x6865_7261_6C64_2066, key1: 0x696C_7465_7220_636F)
    hash.append(UInt64(json.count))
    hash.append(padding: json.span)
    let (first, second) = hash.finish()
    guard let code = SegmentCode("filter:\(Hex.text(first, count: 16))\(Hex.text(second, count: 16))") else {
      preconditionFailure("hexadecimal digits behind a word are a segment's code")
    }
    return code
  }
}

// MARK: - Reading

extension NotificationTarget {
  /// The target of a start. Users take precedence over devices, and both over a filter. An empty list never means all devices: if there is
  /// nothing else, it is an error.
  static func ofStart(
    _ notification: RequestObject<RequestKeys.Notification>, allowsEveryone: Bool
  ) throws(LiveActivitiesFault) -> NotificationTarget {
    if let users = try notification.names(.users) { return .users(users) }
    if let devices = try notification.names(.devices) { return .devices(devices) }
    if let key = notification.first(of: .filterCode, .filter) {
      if let target = try filter(notification, key) { return target }
    }
    if let key = notification.first(of: .users, .devices) {
      throw emptyList(notification, key)
    }
    guard allowsEveryone else {
      throw LiveActivitiesFault(
        notification.path,
        "has no target: give users, devices or filter_code; this server does not allow a start for all devices"
      )
    }
    return .allDevices
  }

  /// The target of an update or an end. An end may name some of the activity's devices; an update goes to all of them.
  static func ofUpdate(
    _ notification: RequestObject<RequestKeys.Notification>, isEnd: Bool
  ) throws(LiveActivitiesFault) -> NotificationTarget {
    let id = try notification.filledText(.liveActivityID)
    guard let id else {
      guard let tokens = try notification.names(.pushTokens) else {
        throw LiveActivitiesFault(notification.path(of: .liveActivityID), "is missing")
      }
      return .tokens(tokens)
    }
    for key in [RequestKeys.Notification.users, .filterCode, .filter] where notification[key] != nil {
      throw LiveActivitiesFault(
        notification.path(of: key),
        "does not go with \(isEnd ? "an end" : "an update"): it is for all devices of the activity")
    }
    guard let devices = try notification.names(.devices) else {
      if notification[.devices] == nil { return .activity(id) }
      throw emptyList(notification, .devices)
    }
    guard isEnd else {
      throw LiveActivitiesFault(
        notification.path(of: .devices), "does not go with an update: it is for all devices of the activity")
    }
    return .devices(devices)
  }

  private static func emptyList(
    _ notification: RequestObject<RequestKeys.Notification>, _ key: RequestKeys.Notification
  ) -> LiveActivitiesFault {
    LiveActivitiesFault(notification.path(of: key), "must hold 1 to \(Limits.targetsMaximum) strings, not 0")
  }

  /// Reads a segment's code, or a filter as text (such as `T("plan", EQ, "gold")`) or JSON. nil: an empty string.
  private static func filter(
    _ notification: RequestObject<RequestKeys.Notification>, _ key: RequestKeys.Notification
  ) throws(LiveActivitiesFault) -> NotificationTarget? {
    guard let place = notification[key] else { return nil }
    let json = notification.json
    let source: [UInt8]
    if let text = json.text(at: place) {
      if text.isEmpty { return nil }
      if let code = SegmentCode(text) { return .segment(code) }
      source = Array(text.utf8)
      // Without "(" and "{" it is meant as a code.
      guard source.contains(UInt8(ascii: "(")) || source.contains(ASCII.openBrace) else {
        throw notification.wrong(key, "\(SegmentCode.rule), or be a filter such as T(\"plan\", EQ, \"gold\")")
      }
    } else {
      guard json.bytes[place] == ASCII.openBrace else {
        throw notification.wrong(key, "must be a segment's code, or a filter")
      }
      source = Array(json.raw(at: place))
    }
    do throws(SegmentFilterError) {
      return NotificationTarget(try SegmentFilterParser.parse(source))
    } catch {
      throw LiveActivitiesFault(notification.path(of: key), "is not a filter: \(error)")
    }
  }
}

extension RequestObject<RequestKeys.Notification> {
  /// A list of names, not longer than a job allows; nil: absent or empty.
  fileprivate func names(_ key: Key) throws(LiveActivitiesFault) -> [String]? {
    guard let names = try texts(key), !names.isEmpty else { return nil }
    guard names.count <= Limits.targetsMaximum else {
      throw LiveActivitiesFault(path(of: key), "must hold 1 to \(Limits.targetsMaximum) strings, not \(names.count)")
    }
    return names
  }
}
