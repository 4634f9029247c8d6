/// One channel request's way from its first sending to its end: which ends are final, and which are tried again.
///
/// Refused for the moment (a shutdown, an old token), or never processed: sent again, whatever it is. Perhaps processed: a
/// create is not repeated, because there would be two channels; the others are, once.
package struct ChannelCallState: Hashable, Sendable {
  /// What became of one sending.
  package enum Event: Hashable, Sendable {
    case answered(status: UInt16, reason: APNsReason?)
    /// Refused by the connection before APNs saw it, or never written.
    case notProcessed
    /// The connection ended after it was written.
    case lost(text: String)
    case timedOut(milliseconds: Int64)
  }

  package enum Action: Hashable, Sendable {
    /// APNs did it: read its answer.
    case take
    /// Send it again; on another connection where this one is of no more use.
    case sendAgain(closing: Bool, afterMilliseconds: Int64)
    /// Have the provider token renewed, then send it again on another connection.
    case renew
    case fail(ChannelFailure.Kind)
  }

  /// Sendings that were surely not processed and are repeated at once.
  package static let resendsMaximum: UInt8 = Verdict.resendsMaximum
  /// How long a request rests that was refused because APNs is short of breath.
  package static let restMilliseconds: Int64 = 500

  private let isRepeatable: Bool
  private var resends: UInt8 = 0
  private var isRenewed = false
  private var isRepeated = false
  /// An earlier sending may have been carried out.
  private var isPerhapsDone = false

  package init(_ request: ChannelRequest) {
    isRepeatable = request.isRepeatable
  }

  package mutating func ended(_ event: Event, of request: ChannelRequest) -> Action {
    switch event {
    case .answered(let status, let reason):
      return answered(status, reason, request)
    case .notProcessed:
      guard resends < ChannelCallState.resendsMaximum else {
        return .fail(.unreachable(text: "the connection was closed \(resends + 1) times before the request was taken"))
      }
      resends += 1
      return .sendAgain(closing: false, afterMilliseconds: 0)
    case .lost(let text):
      return perhapsDone(text)
    case .timedOut(let milliseconds):
      return perhapsDone("none came within \(milliseconds) ms")
    }
  }

  private mutating func perhapsDone(_ text: String) -> Action {
    guard isRepeatable, !isRepeated else { return .fail(.unanswered(text: text)) }
    isRepeated = true
    isPerhapsDone = true
    return .sendAgain(closing: true, afterMilliseconds: 0)
  }

  private mutating func answered(_ status: UInt16, _ reason: APNsReason?, _ request: ChannelRequest) -> Action {
    let verdict = Verdict(status: status, reason: reason, resends: resends)
    let refusal = Action.fail(.refused(status: status, reason: reason))
    if verdict.token == .renew {
      // A token is renewed once: the second refusal is not about its age.
      guard !isRenewed else { return refusal }
      isRenewed = true
      return .renew
    }
    switch verdict.fate {
    case .accept:
      return .take
    case .resend:
      resends += 1
      return .sendAgain(closing: true, afterMilliseconds: 0)
    case .retry, .renew, .sendOnceMore, .hold:
      // A pause is somebody's errand, which half a second does not change.
      guard isRepeatable, !isRepeated, verdict.pause == .none, verdict.token == .keep else { return refusal }
      isRepeated = true
      isPerhapsDone = true
      return .sendAgain(closing: verdict.connection == .close, afterMilliseconds: ChannelCallState.restMilliseconds)
    case .reject, .dead, .unregisteredBefore:
      // What the sending before this one deleted is not there any more.
      if isPerhapsDone, reason == .channelNotRegistered, case .delete = request.operation { return .take }
      return refusal
    }
  }
}
