public import Foundation
import PushCore

/// Why a channel request was not carried out, or may not have been. Its description says what was tried, where, and what to do.
public struct ChannelError: Error, Sendable, CustomStringConvertible {
  /// What went wrong.
  public enum Kind: Hashable, Sendable {
    /// APNs refused, with this status; `reason` is nil if its answer had none.
    case refused(status: Int, reason: ChannelReason?)
    /// It was sent, and no answer came.
    case unanswered
    /// APNs reports success, but its answer cannot be read.
    case notUnderstood(status: Int)
    /// Surely not sent: the host cannot be reached.
    case unreachable
    /// Surely not sent: the manager was not made for this app or environment.
    case notServed
    /// Surely not sent: the signing key gave no token.
    case noProviderToken
    /// Surely not sent: too many requests are waiting.
    case tooManyWaiting
    /// Surely not sent: the manager was closed.
    case closed
    /// An argument is wrong: a credential's file, a host, an app that is not a bundle id.
    case invalid
  }

  /// What went wrong; `description` has the details.
  public let kind: Kind
  public let description: String
  /// APNs may have carried out the request: after a create, look at `list` before you create another channel.
  public let isAmbiguous: Bool
  /// The same request may succeed later without a change.
  public let isTemporary: Bool
  /// `apns-request-id` of the request, which Apple's support asks for; nil if there was none.
  public let requestID: UUID?

  /// The channel does not exist: it was deleted, or belongs to another app or environment.
  public var isUnknownChannel: Bool { reason == .channelNotRegistered }

  /// The app has its maximum of channels: delete some.
  public var isLimitReached: Bool { reason == .cannotCreateChannelConfig }

  /// APNs' reason; nil if it gave none or did not answer.
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
    // A manager never revokes its own credential.
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
