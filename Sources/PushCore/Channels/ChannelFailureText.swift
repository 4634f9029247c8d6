/// A channel failure as a message: what was tried, what happened, what to do.
extension ChannelFailure: CustomStringConvertible {
  package var description: String {
    var text = "could not \(request.text): \(event)"
    if wasSent, let requestID = request.requestID { text += " (apns-request-id \(requestID.text))" }
    if let advice { text += "; \(advice)" }
    return text
  }

  /// Apple's support can find it by its `apns-request-id`.
  private var wasSent: Bool {
    switch kind {
    case .refused, .unanswered, .notUnderstood: true
    case .unreachable, .noCredential, .noProviderToken, .revoked, .tooManyWaiting, .closed: false
    }
  }

  /// What came of it, with the host.
  private var event: String {
    let host = host ?? "APNs"
    switch kind {
    case .refused(let status, let reason):
      return "\(host) answered \(status)" + (reason.map { " \($0.name)" } ?? " without a reason")
    case .unanswered(let text): return "\(host) gave no answer: \(text)"
    case .notUnderstood(let status, let text): return "\(host) answered \(status), but \(text)"
    case .unreachable(let text): return "\(host) cannot be reached: \(text)"
    case .noCredential(let text): return text
    case .noProviderToken(let text): return "no provider token: \(text)"
    case .revoked(let name): return "the credential \(name) is revoked"
    case .tooManyWaiting(let count): return "\(count) requests are waiting already"
    case .closed: return "channel management was closed"
    }
  }

  /// What to do; nil if the event says it.
  package var advice: String? {
    switch kind {
    case .refused(_, let reason): return adviceOnRefusal(reason)
    case .unanswered, .notUnderstood:
      return isAmbiguousCreate ? ChannelFailure.lookForTheChannel : "try again"
    case .unreachable:
      return "check \(manageOption), the network and apns.proxy; herald check tries every host"
    case .noCredential: return "see herald check --offline"
    case .noProviderToken: return "try again; herald check --offline looks at the key"
    case .revoked: return "add a new key to the configuration and reload"
    case .tooManyWaiting: return "send fewer requests at once"
    case .closed: return nil
    }
  }

  private var isAmbiguousCreate: Bool { !request.isRepeatable && isAmbiguous }

  private var manageOption: String { "apns.manage_\(request.scope.environment.name)" }

  private static let lookForTheChannel =
    "the channel may have been created: look for it with herald channels list before you create another"

  private func adviceOnRefusal(_ reason: APNsReason?) -> String? {
    let app = request.scope.app
    switch reason {
    case .cannotCreateChannelConfig:
      return """
        \(request.scope) has its \(ChannelLimit.apple) channels, or its channels cannot be configured so: delete \
        those whose events are over (herald channels list, herald channels delete), then try again
        """
    case .channelNotRegistered:
      return "there is no such channel: it was deleted, or belongs to another app or environment (herald channels list)"
    case .badChannelId, .missingChannelId: return "give the id as APNs gave it, base64 with its padding"
    case .featureNotEnabled:
      return "enable Broadcast Capability for \(app) in Certificates, Identifiers & Profiles at developer.apple.com"
    case .topicMismatch, .topicDisallowed:
      return "the credential is not for \(app): list the app under the credential whose key or certificate is for it"
    case .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
      return "the key is not for \(request.scope.environment.name): use a key that is, or the other --environment"
    case .badCertificateEnvironment:
      return
        "the certificate is not for \(request.scope.environment.name), or \(manageOption) names the other environment's host"
    case .badCertificate: return "APNs does not accept the certificate: renew it"
    case .forbidden: return "the credential may not manage channels of \(app)"
    case .invalidProviderToken, .missingProviderToken, .unrelatedKeyIdInToken:
      return "check team_id, key_id and key_file of the credential"
    case .expiredProviderToken: return "APNs called a fresh token expired: check this machine's clock (NTP)"
    case .tooManyProviderTokenUpdates:
      return "another sender renews this key's tokens too: wait 20 minutes, or share the tokens through Redis"
    case .tooManyRequests: return "wait a little, then send fewer requests at once"
    case .serviceUnavailable, .shutdown, .idleTimeout: return "try again later"
    case .internalServerError: return isAmbiguousCreate ? ChannelFailure.lookForTheChannel : "try again later"
    case .badPath, .methodNotAllowed: return "check that \(manageOption) is the host and port of channel management"
    case .badRequestParams: return "check that \(app) is a bundle id, without a topic's suffix"
    case .badRequestPayload, .missingPushType, .invalidPushType, .missingChannelQueueSize, .badMessageId,
      .duplicateHeaders, .payloadEmpty, .payloadTooLarge:
      return "this is a bug in Herald: report it with the apns-request-id"
    case .badCollapseId, .badDeviceToken, .badExpirationDate, .badPriority, .badTopic, .deviceTokenNotForTopic,
      .missingDeviceToken, .missingTopic, .unregistered, .expiredToken:
      return "this answer is not from channel management: check \(manageOption)"
    case .other, nil: return nil
    }
  }
}
