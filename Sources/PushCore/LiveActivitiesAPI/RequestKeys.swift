/// The keys of requests that are read, grouped by their object.
enum RequestKeys {
  enum Envelope: String {
    case request
  }

  enum Request: String {
    case application, auth, notifications
    // In calls of devices.
    case hwid, userId, tags, gateway, language, timezone
    case deviceType = "device_type"
    case pushToken = "push_token"
    case osVersion = "os_version"
    case activityID = "activity_id"
    case activityToken = "activity_token"
    case startToken = "activity_push_to_start_token"
  }

  enum Notification: String {
    case content, title, devices, users
    case liveActivity = "live_activity"
    /// Older name of `live_activity`.
    case iosLiveActivity = "ios_live_activity"
    case liveActivityID = "live_activity_id"
    case filterCode = "filter_code"
    /// Newer name of `filter_code`.
    case filter
    /// Older way to name an activity's devices: their update tokens.
    case pushTokens = "live_activity_push_tokens"
  }

  enum Activity: String {
    case event, attributes, alert, sound
    case contentState = "content-state"
    case attributesType = "attributes-type"
    case dismissalDate = "dismissal-date"
    case staleDate = "stale-date"
    case relevanceScore = "relevance-score"
    case inputPushToken = "input-push-token"
    case inputPushChannel = "input-push-channel"
  }

  /// In a tag's value that is an object.
  enum TagChange: String {
    case operation, value
  }
}
