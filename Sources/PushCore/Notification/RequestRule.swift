/// The rules of a request's path and headers, a row each. Source: Apple, "Sending notification requests to APNs" and
/// "Sending broadcast push notification requests to APNs". `PushTypeRules` has the rules that differ by push type.
package enum RequestRule: CaseIterable, Sendable {
  case app, topic, topicOfType, pushTypeForm, pushTypeKnown, priority, expiration, expirationOnly, collapseIDLength,
    collapseIDForm,
    collapseIDNone, tokenMissing, token, channel, channelPushType, payloadLength

  /// The job's field, Apple's rule, and APNs' answer.
  package var row: (field: String, demand: String, answer: RuleAnswer) {
    switch self {
    case .app: ("app", "apns-topic is a bundle id", .refuses(.badTopic))
    case .topic: ("topic", "apns-topic is a bundle id and a suffix", .refuses(.badTopic))
    case .topicOfType:
      ("topic", "apns-topic is a bundle id with the suffix of the push type", .refuses(.invalidPushType))
    case .pushTypeForm: ("push_type", "apns-push-type is one word", .refuses(.invalidPushType))
    case .pushTypeKnown: ("push_type", "apns-push-type is one that Apple lists", .refuses(.invalidPushType))
    case .priority: ("priority", "apns-priority is one of the push type's", .refuses(.badPriority))
    case .expiration: ("expiration", "apns-expiration is a time in Unix seconds, or 0", .refuses(.badExpirationDate))
    case .expirationOnly: ("expiration", "apns-expiration of pushtotalk is 0", .refuses(.badExpirationDate))
    case .collapseIDLength: ("collapse_id", "apns-collapse-id has at most 64 bytes", .refuses(.badCollapseId))
    case .collapseIDForm: ("collapse_id", "no header holds control characters", .noRequest)
    case .collapseIDNone: ("collapse_id", "accessory has no apns-collapse-id", .refuses(.badCollapseId))
    case .tokenMissing: ("to.token", "the path ends in a device token", .refuses(.missingDeviceToken))
    case .token: ("to.token", "a device token is hexadecimal, whole bytes", .refuses(.badDeviceToken))
    case .channel: ("to.channel", "apns-channel-id is base64", .refuses(.badChannelId))
    case .channelPushType: ("to.channel", "a broadcast's apns-push-type is liveactivity", .refuses(.invalidPushType))
    case .payloadLength: ("payload", "4096 bytes; 5120 for voip and broadcasts", .refuses(.payloadTooLarge))
    }
  }
}
