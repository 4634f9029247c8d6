/// A Live Activity on a simulated device: what the device displays, and what happened to it.
public struct SimulatedActivity: Hashable, Sendable {
  /// What the device displays.
  public enum State: String, Sendable {
    /// On screen, with `contentState`.
    case active
    /// On screen, marked as out of date: its stale date has passed.
    case stale
    /// Ended, and still on the lock screen.
    case ended
    /// Gone from the screen. Its update token is answered 410 Unregistered.
    case dismissed
  }

  /// What ended an activity.
  public enum Cause: String, Sendable {
    /// A push with the event `end`.
    case end
    /// Eight hours.
    case expired
    /// The user.
    case swiped
    /// A second activity with the same id on the same device.
    case replaced
  }

  /// From 1, in the order of their starts.
  public let number: Int
  /// Bundle id.
  public let app: String
  /// The device's id, as it registers.
  public let device: String
  /// The push-to-start token that started it, in lower case.
  public let startToken: String
  /// From `attributes`; nil: they have none at the configured path, so the app cannot register an update token.
  public let id: String?
  /// `attributes-type`.
  public let attributesType: String
  /// JSON, as it arrived.
  public let attributes: String
  /// The broadcast channel that it follows; nil: it is updated by its token.
  public let channel: String?
  /// Unix milliseconds.
  public let startedAt: Int64

  /// What the device displays.
  public internal(set) var state = State.active
  /// nil: it has not ended.
  public internal(set) var cause: Cause?
  /// JSON, as it arrived last.
  public internal(set) var contentState: String
  /// Of the push that is displayed, Unix seconds.
  public internal(set) var timestamp: Int64
  /// Of the push that is displayed, Unix seconds.
  public internal(set) var staleDate: Int64?
  /// 160 hexadecimal digits; nil: the device has none yet, or never gets one.
  public internal(set) var updateToken: String?
  /// When it registered that token, Unix milliseconds.
  public internal(set) var registeredAt: Int64?
  /// Unix milliseconds.
  public internal(set) var endedAt: Int64?
  /// When it leaves, or left, the screen, Unix milliseconds.
  public internal(set) var dismissalAt: Int64?
  /// Updates and ends that were displayed.
  public internal(set) var updates = 0
  /// Pushes with an alert that were displayed, the start among them.
  public internal(set) var alerts = 0
  /// Pushes that changed nothing, because their timestamp was not newer.
  public internal(set) var ignored = 0
  /// Pushes that came after its end.
  public internal(set) var late = 0
  /// How often its stale date passed.
  public internal(set) var stale = 0

  /// Its earlier tokens.
  var formerTokens: [String] = []
  /// The app registers nothing for it.
  var isSilent = false
  /// Milliseconds from its registration to a new token.
  var renewMilliseconds: Int64?
  /// The stale date that wakes the device next, Unix seconds.
  var staleWake: Int64?

  init(
    number: Int, app: String, device: String, startToken: String, push: ActivityPush, startedAt: Int64
  ) {
    self.number = number
    self.app = app
    self.device = device
    self.startToken = startToken
    id = push.activity
    attributesType = push.attributesType ?? ""
    attributes = push.attributes ?? "{}"
    channel = push.channel
    self.startedAt = startedAt
    contentState = push.contentState ?? "{}"
    timestamp = push.timestamp
    staleDate = push.staleDate
    alerts = push.hasAlert ? 1 : 0
  }

  var isOver: Bool { cause != nil }

  /// Displays an update or an end.
  mutating func show(_ push: ActivityPush) {
    timestamp = push.timestamp
    if let state = push.contentState { contentState = state }
    staleDate = push.staleDate
    state = .active
    updates += 1
    alerts += push.hasAlert ? 1 : 0
  }

  package func write(to json: inout JSONText) {
    json.beginObject()
    json.field("number", number)
    json.field("app", app)
    json.field("device", device)
    json.field("id", id)
    json.field("state", state.rawValue)
    json.field("cause", cause?.rawValue)
    json.key("content_state")
    json.raw(contentState)
    json.field("timestamp", timestamp)
    json.field("stale_date", staleDate)
    json.field("attributes_type", attributesType)
    json.key("attributes")
    json.raw(attributes)
    json.field("start_token", startToken)
    json.field("update_token", updateToken)
    json.field("channel", channel)
    json.field("started_at", startedAt)
    json.field("registered_at", registeredAt)
    json.field("ended_at", endedAt)
    json.field("dismissal_at", dismissalAt)
    json.field("updates", updates)
    json.field("alerts", alerts)
    json.field("ignored", ignored)
    json.field("late", late)
    json.field("stale", stale)
    json.endObject()
  }
}
