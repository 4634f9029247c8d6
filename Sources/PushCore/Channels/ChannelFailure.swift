/// Why a channel request was not carried out, or may not have been: what was tried, on what, and what to do.
package struct ChannelFailure: Error, Hashable, Sendable {
  package enum Kind: Hashable, Sendable {
    /// APNs refused. `reason` is nil where its answer had none.
    case refused(status: UInt16, reason: APNsReason?)
    /// It was sent, and no answer came: the connection was lost, or the time was over; `text` says which.
    case unanswered(text: String)
    /// APNs says that it was done, and not what.
    case notUnderstood(status: UInt16, text: String)
    /// Surely not sent: the host cannot be reached.
    case unreachable(text: String)
    /// Surely not sent: no credential serves the app in the environment.
    case noCredential(text: String)
    /// Surely not sent: a signing key gave no provider token.
    case noProviderToken(text: String)
    /// Surely not sent: the credential that would serve the app was revoked by command.
    case revoked(credential: String)
    /// Surely not sent: as many requests wait as may.
    case tooManyWaiting(Int)
    /// Surely not sent: whoever sends was closed.
    case closed
  }

  package let kind: Kind
  /// What was to be done. Its `requestID` is what Apple's support asks for.
  package let request: ChannelRequest
  /// The host and port that it went, or was to go, to; nil: no host was chosen.
  package let host: String?

  package init(_ kind: Kind, request: ChannelRequest, host: String?) {
    self.kind = kind
    self.request = request
    self.host = host
  }

  /// APNs' reason; nil where it gave none, or nothing was answered.
  package var reason: APNsReason? {
    if case .refused(_, let reason) = kind { reason } else { nil }
  }

  /// The channel of the request is not there: deleted, or of another app or environment.
  package var isUnknownChannel: Bool { reason == .channelNotRegistered }

  /// The app has as many channels as it may have.
  package var isLimitReached: Bool { reason == .cannotCreateChannelConfig }

  /// Whether APNs may have carried the request out all the same: after a create, there may be a channel that nobody knows.
  package var isAmbiguous: Bool {
    switch kind {
    case .unanswered, .notUnderstood: true
    // What is refused with 5xx is not always undone.
    case .refused(let status, let reason): status >= 500 && reason == .internalServerError
    case .unreachable, .noCredential, .noProviderToken, .revoked, .tooManyWaiting, .closed: false
    }
  }

  /// The same request may succeed later, as it is.
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

  /// Somebody has to change a credential, an app's capabilities or a clock first.
  private var needsPeople: Bool {
    switch reason {
    case .invalidProviderToken, .missingProviderToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken,
      .badCertificate, .badCertificateEnvironment, .featureNotEnabled, .topicMismatch:
      true
    default: false
    }
  }
}
