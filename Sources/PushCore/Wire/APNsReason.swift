/// `reason` of an APNs answer. Open: an unknown text is kept, cut to 64 bytes, in `other`.
///
/// Source: Apple, "Handling notification responses from APNs", and the broadcast and channel pages. Known reasons cost
/// no allocation.
package enum APNsReason: Hashable, Sendable {
  // The request.
  case badCollapseId, badDeviceToken, badExpirationDate, badMessageId, badPriority, badTopic, deviceTokenNotForTopic,
    duplicateHeaders, idleTimeout, invalidPushType, missingDeviceToken, missingTopic, payloadEmpty, topicDisallowed
  // The credential.
  case badCertificate, badCertificateEnvironment, badEnvironmentKeyIdInToken, badEnvironmentKeyInToken,
    expiredProviderToken, forbidden, invalidProviderToken, missingProviderToken, unrelatedKeyIdInToken, topicMismatch
  // The path.
  case badPath, methodNotAllowed
  // The device.
  case unregistered, expiredToken
  // Size and rate.
  case payloadTooLarge, tooManyRequests, tooManyProviderTokenUpdates
  // APNs itself.
  case internalServerError, serviceUnavailable, shutdown
  // Broadcasts and channels.
  case featureNotEnabled, missingChannelId, badChannelId, badRequestParams, badRequestPayload, missingPushType,
    missingChannelQueueSize, channelNotRegistered, cannotCreateChannelConfig
  /// A reason that is not listed here: printable ASCII, at most 64 bytes (other bytes become `?`).
  case other(String)

  /// The maximum length that is kept of an unknown reason, in bytes.
  package static let otherCountMaximum = 64

  /// The reason that `text` names, compared byte for byte.
  package init(_ text: Span<UInt8>) {
    if let known = APNsReason.known(text) {
      self = known
    } else {
      self = .other(APNsReason.printable(text))
    }
  }

  /// The known reasons in this order, for arrays of counters.
  package static let allKnown: [APNsReason] = [
    .badCollapseId, .badDeviceToken, .badExpirationDate, .badMessageId, .badPriority, .badTopic,
    .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType, .missingDeviceToken, .missingTopic,
    .payloadEmpty, .topicDisallowed,
    .badCertificate, .badCertificateEnvironment, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken,
    .expiredProviderToken, .forbidden, .invalidProviderToken, .missingProviderToken, .unrelatedKeyIdInToken,
    .topicMismatch,
    .badPath, .methodNotAllowed,
    .unregistered, .expiredToken,
    .payloadTooLarge, .tooManyRequests, .tooManyProviderTokenUpdates,
    .internalServerError, .serviceUnavailable, .shutdown,
    .featureNotEnabled, .missingChannelId, .badChannelId, .badRequestParams, .badRequestPayload, .missingPushType,
    .missingChannelQueueSize, .channelNotRegistered, .cannotCreateChannelConfig,
  ]

  /// The text on the wire. Known ones are literals, which cost nothing.
  package var name: String {
    switch self {
    case .badCollapseId: "BadCollapseId"
    case .badDeviceToken: "BadDeviceToken"
    case .badExpirationDate: "BadExpirationDate"
    case .badMessageId: "BadMessageId"
    case .badPriority: "BadPriority"
    case .badTopic: "BadTopic"
    case .deviceTokenNotForTopic: "DeviceTokenNotForTopic"
    case .duplicateHeaders: "DuplicateHeaders"
    case .idleTimeout: "IdleTimeout"
    case .invalidPushType: "InvalidPushType"
    case .missingDeviceToken: "MissingDeviceToken"
    case .missingTopic: "MissingTopic"
    case .payloadEmpty: "PayloadEmpty"
    case .topicDisallowed: "TopicDisallowed"
    case .badCertificate: "BadCertificate"
    case .badCertificateEnvironment: "BadCertificateEnvironment"
    case .badEnvironmentKeyIdInToken: "BadEnvironmentKeyIdInToken"
    case .badEnvironmentKeyInToken: "BadEnvironmentKeyInToken"
    case .expiredProviderToken: "ExpiredProviderToken"
    case .forbidden: "Forbidden"
    case .invalidProviderToken: "InvalidProviderToken"
    case .missingProviderToken: "MissingProviderToken"
    case .unrelatedKeyIdInToken: "UnrelatedKeyIdInToken"
    case .topicMismatch: "TopicMismatch"
    case .badPath: "BadPath"
    case .methodNotAllowed: "MethodNotAllowed"
    case .unregistered: "Unregistered"
    case .expiredToken: "ExpiredToken"
    case .payloadTooLarge: "PayloadTooLarge"
    case .tooManyRequests: "TooManyRequests"
    case .tooManyProviderTokenUpdates: "TooManyProviderTokenUpdates"
    case .internalServerError: "InternalServerError"
    case .serviceUnavailable: "ServiceUnavailable"
    case .shutdown: "Shutdown"
    case .featureNotEnabled: "FeatureNotEnabled"
    case .missingChannelId: "MissingChannelId"
    case .badChannelId: "BadChannelId"
    case .badRequestParams: "BadRequestParams"
    case .badRequestPayload: "BadRequestPayload"
    case .missingPushType: "MissingPushType"
    case .missingChannelQueueSize: "MissingChannelQueueSize"
    case .channelNotRegistered: "ChannelNotRegistered"
    case .cannotCreateChannelConfig: "CannotCreateChannelConfig"
    case .other(let text): text
    }
  }

  /// Appends the text unescaped; `other` may contain characters that JSON must escape.
  package func writeName(to output: inout [UInt8]) {
    output.append(contentsOf: name.utf8)
  }

  /// Reasons differ most in length, so the length selects the few that are compared.
  private static func known(_ text: Span<UInt8>) -> APNsReason? {
    switch text.count {
    case 7:
      if text.equals("BadPath") { return .badPath }
    case 8:
      if text.equals("BadTopic") { return .badTopic }
      if text.equals("Shutdown") { return .shutdown }
    case 9:
      if text.equals("Forbidden") { return .forbidden }
    case 11:
      if text.equals("BadPriority") { return .badPriority }
      if text.equals("IdleTimeout") { return .idleTimeout }
    case 12:
      if text.equals("BadMessageId") { return .badMessageId }
      if text.equals("MissingTopic") { return .missingTopic }
      if text.equals("PayloadEmpty") { return .payloadEmpty }
      if text.equals("Unregistered") { return .unregistered }
      if text.equals("ExpiredToken") { return .expiredToken }
      if text.equals("BadChannelId") { return .badChannelId }
    case 13:
      if text.equals("BadCollapseId") { return .badCollapseId }
      if text.equals("TopicMismatch") { return .topicMismatch }
    case 14:
      if text.equals("BadDeviceToken") { return .badDeviceToken }
      if text.equals("BadCertificate") { return .badCertificate }
    case 15:
      if text.equals("InvalidPushType") { return .invalidPushType }
      if text.equals("TopicDisallowed") { return .topicDisallowed }
      if text.equals("PayloadTooLarge") { return .payloadTooLarge }
      if text.equals("TooManyRequests") { return .tooManyRequests }
      if text.equals("MissingPushType") { return .missingPushType }
    case 16:
      if text.equals("DuplicateHeaders") { return .duplicateHeaders }
      if text.equals("MethodNotAllowed") { return .methodNotAllowed }
      if text.equals("MissingChannelId") { return .missingChannelId }
      if text.equals("BadRequestParams") { return .badRequestParams }
    case 17:
      if text.equals("BadExpirationDate") { return .badExpirationDate }
      if text.equals("FeatureNotEnabled") { return .featureNotEnabled }
      if text.equals("BadRequestPayload") { return .badRequestPayload }
    case 18:
      if text.equals("MissingDeviceToken") { return .missingDeviceToken }
      if text.equals("ServiceUnavailable") { return .serviceUnavailable }
    case 19:
      if text.equals("InternalServerError") { return .internalServerError }
      if text.equals("Service Unavailable") { return .serviceUnavailable }
    case 20:
      if text.equals("ExpiredProviderToken") { return .expiredProviderToken }
      if text.equals("InvalidProviderToken") { return .invalidProviderToken }
      if text.equals("MissingProviderToken") { return .missingProviderToken }
      if text.equals("ChannelNotRegistered") { return .channelNotRegistered }
    case 21:
      if text.equals("UnrelatedKeyIdInToken") { return .unrelatedKeyIdInToken }
    case 22:
      if text.equals("DeviceTokenNotForTopic") { return .deviceTokenNotForTopic }
    case 23:
      if text.equals("MissingChannelQueueSize") { return .missingChannelQueueSize }
    case 24:
      if text.equals("BadEnvironmentKeyInToken") { return .badEnvironmentKeyInToken }
    case 25:
      if text.equals("BadCertificateEnvironment") { return .badCertificateEnvironment }
      if text.equals("CannotCreateChannelConfig") { return .cannotCreateChannelConfig }
    case 26:
      if text.equals("BadEnvironmentKeyIdInToken") { return .badEnvironmentKeyIdInToken }
    case 27:
      if text.equals("TooManyProviderTokenUpdates") { return .tooManyProviderTokenUpdates }
    default: break
    }
    return nil
  }

  private static func printable(_ text: Span<UInt8>) -> String {
    var bytes: [UInt8] = []
    for index in 0..<min(text.count, otherCountMaximum) {
      let byte = text[index]
      bytes.append(byte >= 0x20 && byte < 0x7F ? byte : UInt8(ascii: "?"))
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
