/// The keys of requests that have a meaning here, by the object that they stand in.
enum RequestKeys {
  enum Envelope: String {
    case request
  }

  enum Request: String {
    case application, auth, notifications
    // Of devices.
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
    /// An older name.
    case iosLiveActivity = "ios_live_activity"
    case liveActivityID = "live_activity_id"
    case filterCode = "filter_code"
    /// A newer name.
    case filter
    /// Older: the activity's devices by their update tokens.
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

  /// Of a tag's value that is an object.
  enum TagChange: String {
    case operation, value
  }
}
