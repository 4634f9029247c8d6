/// Maps requests of an outside service's Live Activities API, `/json/1.3/…`, to jobs and registrations. `DeviceReader` reads calls of
/// devices, `NotificationReader` calls of servers.
package struct LiveActivitiesAPI: Sendable {
  /// By application code.
  private let applications: [String: LiveActivitiesApplication]
  /// Whether a start without a target goes to all devices of the app.
  private let allowsEveryone: Bool
  /// What workers write into jobs.
  private let activities: ActivityWriting
  private let tables = JobParser.Tables()

  /// Maximum of notifications in one request.
  package static let notificationsMaximum = 1000

  package init(
    applications: [String: LiveActivitiesApplication], allowsEveryone: Bool,
    activities: ActivityWriting = ActivityWriting()
  ) {
    self.applications = applications
    self.allowsEveryone = allowsEveryone
    self.activities = activities
  }

  /// Validates a request and decides what to do.
  /// - Parameters:
  ///   - method: the last part of the path.
  ///   - authorization: the value of the header `Authorization`; nil: absent.
  ///   - now: Unix milliseconds.
  ///   - random: for the ids of jobs.
  package func read(
    method name: String, body: [UInt8], authorization: String?, now: Int64, random: inout some RandomNumberGenerator
  ) -> LiveActivitiesReading {
    guard let method = LiveActivitiesMethod(rawValue: name) else {
      return .open(.unsupported(name))
    }
    let json: CheckedJSON
    do throws(JSONError) {
      json = try CheckedJSON(body)
    } catch {
      return .open(.unparsable(error, in: body.span))
    }
    var access: LiveActivitiesReading.Access?
    do throws(LiveActivitiesFault) {
      let plan = try plan(method, json, authorization, now, &random, &access)
      return LiveActivitiesReading(access: access, decision: .plan(plan))
    } catch {
      return LiveActivitiesReading(access: access, decision: .answer(.refused(error)))
    }
  }

  /// The answer to a request without a valid key. Reads no more of it than the application's code and the key.
  package func refusal(
    _ method: LiveActivitiesMethod, _ body: [UInt8], authorization: String?
  ) -> LiveActivitiesAnswer {
    let json: CheckedJSON
    do throws(JSONError) {
      json = try CheckedJSON(body)
    } catch {
      return .unparsable(error, in: body.span)
    }
    do throws(LiveActivitiesFault) {
      _ = try opening(method, json, authorization)
      return .unknownAccount
    } catch {
      return .refused(error)
    }
  }

  private struct Opening {
    var request: RequestObject<RequestKeys.Request>
    var application: LiveActivitiesApplication
    var token: String
  }

  private func opening(
    _ method: LiveActivitiesMethod, _ json: CheckedJSON, _ authorization: String?
  ) throws(LiveActivitiesFault) -> Opening {
    let envelope = try RequestObject<RequestKeys.Envelope>(json, at: json.start, path: "")
    guard let place = envelope[.request] else { throw LiveActivitiesFault("request is missing") }
    let request = try RequestObject<RequestKeys.Request>(json, at: place, path: "")
    guard let code = try request.text(.application), let application = applications[code] else {
      throw LiveActivitiesFault.application
    }
    guard let token = try token(request, authorization, method.permission) else { throw LiveActivitiesFault.account }
    return Opening(request: request, application: application, token: token)
  }

  /// - Parameter access: set as soon as it is known, also if the rest of the request is wrong.
  private func plan(
    _ method: LiveActivitiesMethod, _ json: CheckedJSON, _ authorization: String?, _ now: Int64,
    _ random: inout some RandomNumberGenerator, _ access: inout LiveActivitiesReading.Access?
  ) throws(LiveActivitiesFault) -> LiveActivitiesPlan {
    let opening = try opening(method, json, authorization)
    let (request, application, token) = (opening.request, opening.application, opening.token)
    access = LiveActivitiesReading.Access(token: token, permission: method.permission, scope: application.scope)
    switch method.permission {
    case .register:
      let scope = try DeviceReader.scope(request, of: application)
      access = LiveActivitiesReading.Access(token: token, permission: .register, scope: scope)
      var reader = DeviceReader(request, method, scope: scope, now: now)
      try reader.read()
      return reader.plan
    case .send:
      var reader = NotificationReader(
        application, allowsEveryone: allowsEveryone, activities, tables, now: now)
      for (index, place) in try notifications(request).enumerated() {
        let path = "notifications[\(index)]"
        try reader.read(
          NotificationReader.Notification(json, at: place, path: path), isStart: method == .startLiveActivity,
          jobID: UUIDValue.version4(&random).text)
      }
      return reader.plan
    }
  }

  /// The places of the notifications; at least one.
  private func notifications(
    _ request: RequestObject<RequestKeys.Request>
  ) throws(LiveActivitiesFault) -> [Int] {
    guard let place = request[.notifications] else { throw LiveActivitiesFault.noNotifications }
    guard let places = request.json.elements(at: place) else {
      throw request.wrong(.notifications, "must be an array of objects")
    }
    guard !places.isEmpty else { throw LiveActivitiesFault.noNotifications }
    guard places.count <= LiveActivitiesAPI.notificationsMaximum else {
      throw LiveActivitiesFault(
        "notifications", "must hold 1 to \(LiveActivitiesAPI.notificationsMaximum) objects, not \(places.count)")
    }
    return places
  }

  /// The request's key. Servers send it as `auth`, devices in a header; both are accepted from both. nil: absent.
  private func token(
    _ request: RequestObject<RequestKeys.Request>, _ authorization: String?,
    _ permission: LiveActivitiesMethod.Permission
  ) throws(LiveActivitiesFault) -> String? {
    let inHeader = authorization.flatMap(LiveActivitiesAPI.token)
    if permission == .register, let inHeader { return inHeader }
    return try request.filledText(.auth) ?? inHeader
  }

  /// The schemes of the header `Authorization`, in lower case.
  package static let schemes = ["token", "bearer"]

  /// The token after `Token` or `Bearer`.
  private static func token(ofHeader value: String) -> String? {
    let parts = value.split(separator: " ", omittingEmptySubsequences: true)
    guard parts.count == 2, schemes.contains(where: parts[0].lowercased().hasBytes(of:)) else { return nil }
    return String(parts[1])
  }

  /// The key (`auth`) in the beginning of a body, which may be cut anywhere; nil: it is not there, or the body is not such a request.
  package static func token(in bytes: [UInt8]) -> String? {
    let span = bytes.span
    var scanner = JSONScanner()
    do throws(JSONError) {
      guard try enter("request", span, &scanner), try enter("auth", span, &scanner),
        scanner.peek(span) == ASCII.quote
      else { return nil }
      return try scanner.string(span).text(of: span)
    } catch {
      return nil
    }
  }

  /// Goes to the value of a member of the object that comes next. false: there is no such member.
  private static func enter(
    _ name: String, _ bytes: Span<UInt8>, _ scanner: inout JSONScanner
  ) throws(JSONError) -> Bool {
    var hasMember = try scanner.beginObject(bytes)
    while hasMember {
      let key = try scanner.key(bytes)
      if bytes.extracting(key.range.range).equals(name) { return true }
      try scanner.skipValue(bytes)
      hasMember = try scanner.nextMember(bytes)
    }
    return false
  }
}
