/// The verdict table: what each answer of APNs means. Sources: Apple's "Handling notification responses from APNs", and what is known of
/// answers that it does not list.
extension Verdict {
  /// How often a job is sent again at once before it goes to a retry queue.
  package static let resendsMaximum: UInt8 = 3

  /// The verdict on an answer with a status.
  /// - Parameters:
  ///   - status: the HTTP status.
  ///   - reason: `reason` of the body; nil if APNs gave none.
  ///   - unregisteredAt: `timestamp` of a 410, Unix milliseconds.
  ///   - tokenRegisteredAt: when the token was registered, from the job, Unix milliseconds.
  ///   - resends: how often this job was already resent at once. A renewed token is tried once, a resend `resendsMaximum` times; then the
  ///     job waits in a retry queue.
  package init(
    status: UInt16, reason: APNsReason?, unregisteredAt: Int64? = nil, tokenRegisteredAt: Int64? = nil,
    resends: UInt8 = 0
  ) {
    if status >= 200 && status < 300 {
      self.init(.accept)
      return
    }
    guard let reason else {
      self.init(status: status, unregisteredAt: unregisteredAt, tokenRegisteredAt: tokenRegisteredAt)
      return
    }
    let resend = resends < Verdict.resendsMaximum ? Fate.resend : .retry
    switch reason {
    case .badCollapseId, .badExpirationDate, .badMessageId, .badPriority, .invalidPushType, .payloadEmpty,
      .duplicateHeaders, .missingDeviceToken, .payloadTooLarge, .missingPushType, .missingChannelId,
      .badRequestParams, .badRequestPayload, .missingChannelQueueSize, .badPath, .methodNotAllowed:
      self.init(.reject, notes: .ourFault)
    case .badChannelId:
      self.init(.reject)
    case .badDeviceToken:
      self.init(.reject, pause: .topicAndClassWhenNoneAccepted, notes: .badToken)
    case .deviceTokenNotForTopic:
      self.init(.reject, notes: .badToken)
    case .badTopic, .missingTopic, .topicDisallowed:
      self.init(.reject, pause: .topicWhenRepeated)
    case .idleTimeout, .shutdown:
      self.init(resend, connection: .close)
    case .expiredProviderToken:
      self.init(resends == 0 ? .renew : .retry, connection: .close, token: .renew)
    case .invalidProviderToken:
      // No pause if its `iat` is the cause.
      self.init(.retry, token: .replaceIfMisdated, pause: .credential)
    case .missingProviderToken:
      self.init(.retry, pause: .credential)
    case .unrelatedKeyIdInToken:
      self.init(resend, connection: .close)
    case .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
      self.init(.retry, pause: .credentialInEnvironment)
    case .badCertificate, .badCertificateEnvironment:
      self.init(.retry, connection: .close, pause: .credential)
    case .forbidden:
      self.init(.reject, pause: .credentialWhenRepeated)
    case .unregistered, .expiredToken:
      self.init(unregisteredAt: unregisteredAt, tokenRegisteredAt: tokenRegisteredAt)
    case .tooManyRequests:
      self.init(.retry, notes: .tightenDevice)
    case .tooManyProviderTokenUpdates:
      self.init(.hold, connection: .close, token: .keepOlder)
    case .internalServerError:
      self.init(.retry)
    case .serviceUnavailable:
      self.init(.retry, connection: .fewerStreams)
    case .featureNotEnabled:
      self.init(.retry, pause: .broadcastsOfApp)
    case .channelNotRegistered:
      self.init(.reject, notes: .deadChannel)
    case .cannotCreateChannelConfig:
      self.init(.reject, pause: .channelCreation)
    case .topicMismatch:
      self.init(.retry, pause: .credentialForApp)
    case .other:
      self.init(status: status, unregisteredAt: unregisteredAt, tokenRegisteredAt: tokenRegisteredAt)
    }
  }

  /// The verdict on a request's result, also without an answer.
  package init(_ answer: borrowing PushAnswer, tokenRegisteredAt: Int64?, resends: UInt8) {
    switch answer.kind {
    case .response:
      self.init(
        status: answer.status, reason: answer.reason, unregisteredAt: answer.unregisteredAt,
        tokenRegisteredAt: tokenRegisteredAt, resends: resends)
    case .notProcessed:
      self.init(resends < Verdict.resendsMaximum ? .resend : .retry)
    case .lost, .timedOut:
      // First at once, so that a push does not wait because its connection ended; then like any other failure.
      self.init(resends == 0 ? .sendOnceMore : .retry, notes: .ambiguous)
    }
  }

  /// An error without a listed reason: the status decides.
  private init(status: UInt16, unregisteredAt: Int64?, tokenRegisteredAt: Int64?) {
    switch status {
    case 403: self.init(.reject, pause: .credentialWhenRepeated)
    case 404, 405, 413: self.init(.reject, notes: .ourFault)
    // Request Timeout, Misdirected Request: not processed, and not to be sent on this connection again (RFC 9110, 15.5.9 and 15.5.20).
    case 408, 421: self.init(.retry, connection: .close)
    case 410: self.init(unregisteredAt: unregisteredAt, tokenRegisteredAt: tokenRegisteredAt)
    case 425: self.init(.retry)
    case 429: self.init(.retry, notes: .tightenDevice)
    case 503: self.init(.retry, connection: .fewerStreams)
    case 400..<500: self.init(.reject)
    // APNs never answers 1xx or 3xx: a proxy between us answered, and may stop doing so.
    default: self.init(.retry)
    }
    notes.insert(.unknownReason)
  }

  /// A 410. A device that registered after APNs' time must not be marked.
  private init(unregisteredAt: Int64?, tokenRegisteredAt: Int64?) {
    guard let unregisteredAt, let tokenRegisteredAt, tokenRegisteredAt > unregisteredAt else {
      self.init(.dead)
      return
    }
    self.init(.unregisteredBefore)
  }
}
