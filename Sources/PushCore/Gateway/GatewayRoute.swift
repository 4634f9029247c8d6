/// The route of a request, read from its path.
package enum GatewayRoute: Hashable, Sendable {
  case jobs
  case job(String)
  case control(ExpansionState.Command, String)
  case device(String)
  case user(String)
  case segment(String)
  case segmentCount(String)
  case activity(String)
  case outcomes
  /// `/json/1.3/<method>`.
  case liveActivities(String)
  case description, page
  case alive, ready, metrics

  /// nil: no route has this path.
  /// - Parameter path: without a query.
  package init?(path: String) {
    // Nearly every request.
    if path == "/v1/jobs" {
      self = .jobs
      return
    }
    var words: [String] = []
    for part in path.split(separator: "/", omittingEmptySubsequences: false).dropFirst() {
      guard let word = try? PercentEncoding.decode(part) else { return nil }
      words.append(word)
    }
    guard let first = words.first, path.hasPrefix("/") else { return nil }
    let rest = words.dropFirst()
    switch first {
    case "v1": self.init(v1: Array(rest))
    case "json":
      guard rest.count == 2, rest.first == "1.3", let method = rest.last, !method.isEmpty else { return nil }
      self = .liveActivities(method)
    case "openapi.json" where rest.isEmpty: self = .description
    case "docs" where rest.isEmpty: self = .page
    case "livez" where rest.isEmpty: self = .alive
    case "readyz" where rest.isEmpty: self = .ready
    case "metrics" where rest.isEmpty: self = .metrics
    default: return nil
    }
  }

  private init?(v1 words: [String]) {
    if words == ["jobs"] {
      self = .jobs
    } else if words == ["outcomes"] {
      self = .outcomes
    } else {
      guard words.count >= 2, !words[1].isEmpty else { return nil }
      let id = words[1]
      switch (words[0], words.count == 3 ? words[2] : nil, words.count) {
      case ("jobs", nil, 2): self = .job(id)
      case ("jobs", let word?, 3):
        guard let command = ExpansionState.Command(rawValue: word) else { return nil }
        self = .control(command, id)
      case ("devices", nil, 2): self = .device(id)
      case ("users", nil, 2): self = .user(id)
      case ("segments", nil, 2): self = .segment(id)
      case ("segments", "count", 3): self = .segmentCount(id)
      case ("activities", nil, 2): self = .activity(id)
      default: return nil
      }
    }
  }

  /// The path with placeholders instead of values: a label of metrics.
  package var template: String {
    switch self {
    case .jobs: "/v1/jobs"
    case .job: "/v1/jobs/{id}"
    case .control(let command, _): "/v1/jobs/{id}/\(command.rawValue)"
    case .device: "/v1/devices/{id}"
    case .user: "/v1/users/{id}"
    case .segment: "/v1/segments/{code}"
    case .segmentCount: "/v1/segments/{code}/count"
    case .activity: "/v1/activities/{id}"
    case .outcomes: "/v1/outcomes"
    case .liveActivities: "/json/1.3/{method}"
    case .description: "/openapi.json"
    case .page: "/docs"
    case .alive: "/livez"
    case .ready: "/readyz"
    case .metrics: "/metrics"
    }
  }

  /// The HTTP methods that the route allows.
  package var methods: [String] {
    switch self {
    case .jobs, .control, .segmentCount, .liveActivities: ["POST"]
    case .job, .activity, .outcomes, .description, .page, .alive, .ready, .metrics: ["GET", "HEAD"]
    case .device: ["PUT"]
    case .user: ["DELETE"]
    case .segment: ["PUT", "GET", "HEAD", "DELETE"]
    }
  }

  /// The scope that a request's key needs; nil: the route needs no key, or (`liveActivities`) checks it itself.
  package var scope: KeyScope? {
    switch self {
    case .jobs, .control: .send
    case .device, .user: .register
    case .job, .activity, .outcomes: .read
    case .segment, .segmentCount: .admin
    case .liveActivities, .description, .page, .alive, .ready, .metrics: nil
    }
  }

  /// Probes and metrics: answered on a connection too many.
  package var isProbe: Bool {
    switch self {
    case .alive, .ready, .metrics: true
    case .jobs, .job, .control, .device, .user, .segment, .segmentCount, .activity, .outcomes, .liveActivities,
      .description, .page:
      false
    }
  }
}
