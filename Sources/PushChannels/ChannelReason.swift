/// The `reason` of a refusal, as APNs spells it. Open: APNs may give one that is not listed here.
public struct ChannelReason: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  public let rawValue: String

  public init(rawValue: String) {
    self.rawValue = rawValue
  }

  public var description: String { rawValue }

  // The channel.
  /// The channel's id is not in the form that APNs gives.
  public static let badChannelID = ChannelReason(rawValue: "BadChannelId")
  /// The request names no channel.
  public static let missingChannelID = ChannelReason(rawValue: "MissingChannelId")
  /// It was deleted, or belongs to another app or environment.
  public static let channelNotRegistered = ChannelReason(rawValue: "ChannelNotRegistered")
  /// The app has its maximum of channels.
  public static let cannotCreateChannelConfig = ChannelReason(rawValue: "CannotCreateChannelConfig")
  /// The app was not given the broadcast capability.
  public static let featureNotEnabled = ChannelReason(rawValue: "FeatureNotEnabled")

  // The request.
  /// `apns-request-id` is not a UUID.
  public static let badMessageID = ChannelReason(rawValue: "BadMessageId")
  /// APNs does not know the path: the app is not a bundle id.
  public static let badPath = ChannelReason(rawValue: "BadPath")
  /// A parameter of the request is wrong.
  public static let badRequestParams = ChannelReason(rawValue: "BadRequestParams")
  /// The request's body cannot be read.
  public static let badRequestPayload = ChannelReason(rawValue: "BadRequestPayload")
  /// A header is duplicated.
  public static let duplicateHeaders = ChannelReason(rawValue: "DuplicateHeaders")
  /// The push type has no channels.
  public static let invalidPushType = ChannelReason(rawValue: "InvalidPushType")
  /// The path requires another method.
  public static let methodNotAllowed = ChannelReason(rawValue: "MethodNotAllowed")
  /// The request names no storage policy.
  public static let missingChannelQueueSize = ChannelReason(rawValue: "MissingChannelQueueSize")
  /// The request names no push type.
  public static let missingPushType = ChannelReason(rawValue: "MissingPushType")
  /// The request's body is too long.
  public static let payloadTooLarge = ChannelReason(rawValue: "PayloadTooLarge")

  // The credential.
  /// The certificate is not valid.
  public static let badCertificate = ChannelReason(rawValue: "BadCertificate")
  /// The certificate is for the other environment.
  public static let badCertificateEnvironment = ChannelReason(rawValue: "BadCertificateEnvironment")
  /// The signing key is for the other environment.
  public static let badEnvironmentKeyIDInToken = ChannelReason(rawValue: "BadEnvironmentKeyIdInToken")
  /// The provider token is older than an hour.
  public static let expiredProviderToken = ChannelReason(rawValue: "ExpiredProviderToken")
  /// The credential may not manage channels of this app.
  public static let forbidden = ChannelReason(rawValue: "Forbidden")
  /// The provider token cannot be verified.
  public static let invalidProviderToken = ChannelReason(rawValue: "InvalidProviderToken")
  /// The request has neither a provider token nor a certificate.
  public static let missingProviderToken = ChannelReason(rawValue: "MissingProviderToken")
  /// The credential is not for this app.
  public static let topicDisallowed = ChannelReason(rawValue: "TopicDisallowed")
  /// The certificate is for another app.
  public static let topicMismatch = ChannelReason(rawValue: "TopicMismatch")
  /// The signing key belongs to another team or app than earlier ones on the connection.
  public static let unrelatedKeyIDInToken = ChannelReason(rawValue: "UnrelatedKeyIdInToken")

  // Rates, and APNs itself.
  /// APNs closed an idle connection.
  public static let idleTimeout = ChannelReason(rawValue: "IdleTimeout")
  /// APNs failed.
  public static let internalServerError = ChannelReason(rawValue: "InternalServerError")
  /// APNs accepts no requests at the moment.
  public static let serviceUnavailable = ChannelReason(rawValue: "ServiceUnavailable")
  /// APNs is closing the connection.
  public static let shutdown = ChannelReason(rawValue: "Shutdown")
  /// The provider token was renewed within 20 minutes.
  public static let tooManyProviderTokenUpdates = ChannelReason(rawValue: "TooManyProviderTokenUpdates")
  /// More requests than APNs accepts.
  public static let tooManyRequests = ChannelReason(rawValue: "TooManyRequests")
}
