/// Why a channel request was not carried out, or may not have been: what was tried, where, and what to do.
package struct ChannelFailure: Error, Hashable, Sendable {
  package enum Kind: Hashable, Sendable {
    /// APNs refused. `reason` is nil where its answer had none.
    case refused(status: UInt16, reason: APNsReason?)
    /// It was sent, and no answer came: the connection was lost, or the request timed out; `text` says which.
    case unanswered(text: String)
    /// APNs reports success, but its answer cannot be used.
    case notUnderstood(status: UInt16, text: String)
    /// Surely not sent: the host cannot be reached.
    case unreachable(text: String)
    /// Surely not sent: no credential serves the app in the environment.
    case noCredential(text: String)
    /// Surely not sent: a signing key gave no provider token.
    case noProviderToken(text: String)
    /// Surely not sent: the credential that would serve the app was revoked by command.
    case revoked(credential: String)
    /// Surely not sent: too many requests are waiting.
    case tooManyWaiting(Int)
    /// Surely not sent: the client was closed.
    case closed
  }

  package let kind: Kind
  /// The request. Apple's support asks for its `requestID`.
  package let request: ChannelRequest
  /// The host and port that was used, or would have been; nil: no host was chosen.
  package let host: String?

  package init(_ kind: Kind, request: ChannelRequest, host: String?) {
    self.kind = kind
    self.request = request
    self.host = host
  }

  /// APNs' reason; nil if it gave none or did not answer.
  package var reason: APNsReason? {
    if case .refused(_, let reason) = kind { reason } else { nil }
  }

  /// The channel does not exist: it was deleted, or belongs to another app or environment.
  package var isUnknownChannel: Bool { reason == .channelNotRegistered }

  /// The app has its maximum of channels.
  package var isLimitReached: Bool { reason == .cannotCreateChannelConfig }

  /// Whether APNs may have carried out the request anyway: after a create, an unknown channel may exist.
  package var isAmbiguous: Bool {
    switch kind {
    case .unanswered, .notUnderstood: true
    // A request that was refused with 5xx may have been carried out.
    case .refused(let status, let reason): status >= 500 && reason == .internalServerError
    case .unreachable, .noCredential, .noProviderToken, .revoked, .tooManyWaiting, .closed: false
    }
  }

  /// The same request may succeed later without a change.
  package var isTemporary: Bool {
    switch kind {
    case .refused(let status, let reason):
      switch Verdict(status: status, reason: reason).fate {
      case .resend, .sendOnceMore, .renew, .retry, .hold: !needsPeople
      case .accept, .reject, .dead, .unregisteredBefore: false
      }
    case .unanswered, .unreachable, .noProviderToken, .revoked, .tooManyWaiting: true
    case .notUnderstood, .noCredential, .closed: false
    }
  }

  /// An operator must first change a credential, an app's capabilities or a clock.
  private var needsPeople: Bool {
    switch reason {
    case .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken,
      .badCertificate, .badCertificateEnvironment, .featureNotEnabled, .topicMismatch:
      true
    default: false
    }
  }
}
