import PushCore

/// The control port's requests.
///
/// | request | what it does |
/// | --- | --- |
/// | `GET /` | a page with the last notifications |
/// | `GET /counters` · `/connections` · `/ledger` · `/notifications` | JSON |
/// | `GET /acceptances` | a line for each accepted `apns-id`: the id, how often |
/// | `GET /faults` · `POST /faults` (a line each) · `DELETE /faults[/id]` | faults: list, set, clear |
/// | `POST /actions` | once and now: `goaway=…` · `drop` · `streams=…` · `shutdown` · `revoke=KEY` |
/// | `GET /activities` | the Live Activities on simulated devices, and counts |
/// | `POST /activities` | a line each: `swipe DEVICE ID`; the device `*`: all |
/// | `DELETE /activities` | forgets them all |
/// | `POST /devices` | a line each: `TOKEN unregistered [ms]` · `TOKEN foreign` · `TOKEN topic=T` · `TOKEN device=ID` · `TOKEN ok` |
/// | `POST /keys` | a line each: `KEY environment=E topics=A/B related=KEY team=T` · `KEY any` · `KEY revoked` |
/// | `POST /apps` | a line each: `APP broadcast=off` · `APP broadcast=on` |
/// | `POST /clock` | seconds that the simulated Apple is ahead |
/// | `DELETE /ledger` | forgets requests and counts |
enum ControlAPI {
  /// - Parameter now: the simulated Apple's time.
  static func answer(_ request: ControlRequest, _ state: inout SimulatorState, now: Now) -> ControlResponse {
    let path = request.path.split(separator: "?", maxSplits: 1).first.map(String.init) ?? "/"
    do throws(FaultSyntaxError) {
      switch (request.method, path) {
      case ("GET", "/"): return ControlResponse(html: NotificationPage.html(state))
      case ("GET", "/counters"): return counters(state)
      case ("GET", "/connections"): return connections(state)
      case ("GET", "/ledger"): return ControlResponse(json: JSONText(raw: state.ledger.json()))
      case ("GET", "/acceptances"): return ControlResponse(lines: state.ledger.acceptanceLines())
      case ("GET", "/notifications"): return notifications(state)
      case ("GET", "/faults"): return faults(state)
      case ("POST", "/faults"): return try setFaults(request.body, &state)
      case ("DELETE", "/faults"):
        state.plan.removeAll()
        return faults(state)
      case ("POST", "/actions"):
        for line in lines(request.body) { state.pendingActions.append(try SimulatorAction(line)) }
        return faults(state)
      case ("GET", "/activities"): return ControlActivities.list(&state)
      case ("POST", "/activities"):
        var count = 0
        for line in lines(request.body) { count += try ControlActivities.act(line, &state, now: now) }
        if count == 0 { return .error(404, "no device displays such an activity; GET /activities lists them") }
        return ControlActivities.list(&state)
      case ("DELETE", "/activities"):
        state.service.activities.removeAll()
        return ControlActivities.list(&state)
      case ("POST", "/devices"):
        for line in lines(request.body) { try setDevice(line, &state) }
        return counters(state)
      case ("POST", "/keys"):
        for line in lines(request.body) { try ControlKeys.set(line, &state) }
        return counters(state)
      case ("POST", "/apps"):
        for line in lines(request.body) { try setApp(line, &state) }
        return counters(state)
      case ("POST", "/clock"):
        guard let seconds = Int64(request.body.trimmed), abs(seconds) < 1_000_000_000 else {
          throw FaultSyntaxError(word: request.body, rule: "a number of seconds")
        }
        state.clockOffsetSeconds = seconds
        return counters(state)
      case ("DELETE", "/ledger"):
        state.clearLedger()
        return counters(state)
      case ("DELETE", let path) where path.hasPrefix("/faults/"):
        guard let id = Int(path.dropFirst(8)), state.plan.remove(id) else {
          return .error(404, "no such fault; GET /faults lists them")
        }
        return faults(state)
      default:
        return .error(404, "no such thing here; see apns-simulator --help")
      }
    } catch {
      return .error(400, error.description)
    }
  }

  private static func lines(_ body: String) -> [String] {
    body.split(whereSeparator: \.isNewline).map { String($0).trimmed }.filter { !$0.isEmpty }
  }

  private static func counters(_ state: SimulatorState) -> ControlResponse {
    var json = JSONText()
    state.ledger.writeCounters(to: &json)
    return ControlResponse(json: json)
  }

  private static func connections(_ state: SimulatorState) -> ControlResponse {
    var json = JSONText()
    json.beginArray()
    for connection in state.ledger.connections { connection.write(to: &json) }
    json.endArray()
    return ControlResponse(json: json)
  }

  private static func notifications(_ state: SimulatorState) -> ControlResponse {
    var json = JSONText()
    json.beginArray()
    for notification in state.ledger.lastNotifications { notification.write(to: &json) }
    json.endArray()
    return ControlResponse(json: json)
  }

  private static func faults(_ state: SimulatorState) -> ControlResponse {
    var json = JSONText()
    json.beginArray()
    for fault in state.plan.active {
      json.beginObject()
      json.field("id", fault.id)
      json.field("fault", fault.rule.text)
      json.field("count", fault.count)
      json.endObject()
    }
    json.endArray()
    return ControlResponse(json: json)
  }

  /// All lines are parsed before any is applied.
  private static func setFaults(
    _ body: String, _ state: inout SimulatorState
  ) throws(FaultSyntaxError) -> ControlResponse {
    var rules: [FaultRule] = []
    for line in lines(body) { rules.append(try FaultRule(line)) }
    for rule in rules { state.plan.add(rule) }
    return faults(state)
  }

  private static func setApp(_ line: String, _ state: inout SimulatorState) throws(FaultSyntaxError) {
    let words = line.split(separator: " ").map(String.init)
    guard words.count == 2, HeaderRules.isTopic(words[0]) else {
      throw FaultSyntaxError(word: line, rule: "an app and broadcast=on or broadcast=off")
    }
    switch words[1] {
    case "broadcast=off": state.service.channels.disabledApps.insert(words[0])
    case "broadcast=on": state.service.channels.disabledApps.remove(words[0])
    default: throw FaultSyntaxError(word: words[1], rule: "broadcast=on or broadcast=off")
    }
  }

  private static func setDevice(_ line: String, _ state: inout SimulatorState) throws(FaultSyntaxError) {
    let words = line.split(separator: " ").map(String.init)
    guard words.count >= 2, HeaderRules.isDeviceToken(words[0]) else {
      throw FaultSyntaxError(word: line, rule: "a device token and what becomes of it")
    }
    let token = words[0].lowercased()
    switch words[1] {
    case "unregistered":
      let time = words.count > 2 ? Int64(words[2]) : 0
      guard let time else { throw FaultSyntaxError(word: words[2], rule: "Unix milliseconds") }
      state.service.devices.unregistered[token] = time
    case "foreign": state.service.devices.foreign.insert(token)
    case "ok":
      state.service.devices.unregistered[token] = nil
      state.service.devices.foreign.remove(token)
      state.service.devices.topics[token] = nil
      state.service.activities.setDevice(nil, of: token)
    case let word where word.hasPrefix("device="):
      try ControlActivities.name(String(word.dropFirst(7)), token, &state)
    case let word where word.hasPrefix("topic="): state.service.devices.topics[token] = String(word.dropFirst(6))
    default: throw FaultSyntaxError(word: words[1], rule: "unregistered, foreign, topic=T, device=ID or ok")
    }
  }
}
