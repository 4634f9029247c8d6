public import Foundation
import PushCore

/// Why a channel request was not carried out, or may not have been. Its description says what was tried, on what, and
/// what to do.
public struct ChannelError: Error, Sendable, CustomStringConvertible {
  /// What went wrong.
  public enum Kind: Hashable, Sendable {
    /// APNs refused, with this status; `reason` is nil where its answer had none.
    case refused(status: Int, reason: ChannelReason?)
    /// It was sent, and no answer came.
    case unanswered
    /// APNs says that it was done; what else its answer says cannot be read.
    case notUnderstood(status: Int)
    /// Surely not sent: the host cannot be reached.
    case unreachable
    /// Surely not sent: the manager was not made for this app or environment.
    case notServed
    /// Surely not sent: the signing key gave no token.
    case noProviderToken
    /// Surely not sent: too many requests wait already.
    case tooManyWaiting
    /// Surely not sent: the manager was closed.
    case closed
    /// What was given is wrong: a credential's file, a host, an app that is no bundle id.
    case invalid
  }

  /// What went wrong; `description` says it in words.
  public let kind: Kind
  public let description: String
  /// APNs may have carried the request out all the same: after a create, compare `list` before creating another channel.
  public let isAmbiguous: Bool
  /// The same request may succeed later, as it is.
  public let isTemporary: Bool
  /// `apns-request-id` of the request, which Apple's support asks for; nil where there was none.
  public let requestID: UUID?

  /// The channel is not there: deleted, or of another app or environment.
  public var isUnknownChannel: Bool { reason == .channelNotRegistered }

  /// The app has as many channels as it may have: delete some.
  public var isLimitReached: Bool { reason == .cannotCreateChannelConfig }

  /// APNs' reason; nil where it gave none, or nothing was answered.
  public var reason: ChannelReason? {
    if case .refused(_, let reason) = kind { reason } else { nil }
  }

  init(invalid text: String) {
    kind = .invalid
    description = text
    isAmbiguous = false
    isTemporary = false
    requestID = nil
  }

  init(_ failure: ChannelFailure) {
    isAmbiguous = failure.isAmbiguous
    isTemporary = failure.isTemporary
    requestID = failure.request.requestID.flatMap { UUID(uuidString: $0.text) }
    var text = failure.description
    switch failure.kind {
    case .refused(let status, let reason):
      kind = .refused(status: Int(status), reason: reason.map { ChannelReason(rawValue: $0.name) })
    case .unanswered: kind = .unanswered
    case .notUnderstood(let status, _): kind = .notUnderstood(status: Int(status))
    case .unreachable: kind = .unreachable
    // No manager revokes its own credential.
    case .revoked: kind = .notServed
    case .noCredential:
      kind = .notServed
      text = "could not \(failure.request.text): the ChannelManager was not made for that app, or not for its topics"
    case .noProviderToken: kind = .noProviderToken
    case .tooManyWaiting: kind = .tooManyWaiting
    case .closed: kind = .closed
    }
    description = text
  }
}
