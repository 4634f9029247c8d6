/// The `reason` of a refusal, as APNs spells it. Open: APNs may give one that has no name here.
public struct ChannelReason: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  public let rawValue: String

  public init(rawValue: String) {
    self.rawValue = rawValue
  }

  public var description: String { rawValue }

  // The channel.
  public static let badChannelID = ChannelReason(rawValue: "BadChannelId")
  public static let missingChannelID = ChannelReason(rawValue: "MissingChannelId")
  /// Deleted, or of another app or environment.
  public static let channelNotRegistered = ChannelReason(rawValue: "ChannelNotRegistered")
  /// The app has as many channels as it may have.
  public static let cannotCreateChannelConfig = ChannelReason(rawValue: "CannotCreateChannelConfig")
  /// The app was not given the broadcast capability.
  public static let featureNotEnabled = ChannelReason(rawValue: "FeatureNotEnabled")

  // The request.
  public static let badMessageID = ChannelReason(rawValue: "BadMessageId")
  public static let badPath = ChannelReason(rawValue: "BadPath")
  public static let badRequestParams = ChannelReason(rawValue: "BadRequestParams")
  public static let badRequestPayload = ChannelReason(rawValue: "BadRequestPayload")
  public static let duplicateHeaders = ChannelReason(rawValue: "DuplicateHeaders")
  public static let invalidPushType = ChannelReason(rawValue: "InvalidPushType")
  public static let methodNotAllowed = ChannelReason(rawValue: "MethodNotAllowed")
  public static let missingChannelQueueSize = ChannelReason(rawValue: "MissingChannelQueueSize")
  public static let missingPushType = ChannelReason(rawValue: "MissingPushType")
  public static let payloadTooLarge = ChannelReason(rawValue: "PayloadTooLarge")

  // The credential.
  public static let badCertificate = ChannelReason(rawValue: "BadCertificate")
  public static let badCertificateEnvironment = ChannelReason(rawValue: "BadCertificateEnvironment")
  public static let badEnvironmentKeyIDInToken = ChannelReason(rawValue: "BadEnvironmentKeyIdInToken")
  public static let expiredProviderToken = ChannelReason(rawValue: "ExpiredProviderToken")
  public static let forbidden = ChannelReason(rawValue: "Forbidden")
  public static let invalidProviderToken = ChannelReason(rawValue: "InvalidProviderToken")
  public static let missingProviderToken = ChannelReason(rawValue: "MissingProviderToken")
  public static let topicDisallowed = ChannelReason(rawValue: "TopicDisallowed")
  public static let topicMismatch = ChannelReason(rawValue: "TopicMismatch")
  public static let unrelatedKeyIDInToken = ChannelReason(rawValue: "UnrelatedKeyIdInToken")

  // Rates, and APNs itself.
  public static let idleTimeout = ChannelReason(rawValue: "IdleTimeout")
  public static let internalServerError = ChannelReason(rawValue: "InternalServerError")
  public static let serviceUnavailable = ChannelReason(rawValue: "ServiceUnavailable")
  public static let shutdown = ChannelReason(rawValue: "Shutdown")
  public static let tooManyProviderTokenUpdates = ChannelReason(rawValue: "TooManyProviderTokenUpdates")
  public static let tooManyRequests = ChannelReason(rawValue: "TooManyRequests")
}
