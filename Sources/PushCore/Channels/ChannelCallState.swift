/// One channel request from its first sending to its end: which results are final, and which are retried.
///
/// A request that was surely not processed (a shutdown, an expired token) is always sent again. A request that may have been processed is
/// repeated once, except a create: repeating it could make two channels.
package struct ChannelCallState: Hashable, Sendable {
  /// The result of one sending.
  package enum Event: Hashable, Sendable {
    case answered(status: UInt16, reason: APNsReason?)
    /// Refused by the connection before APNs saw it, or never written.
    case notProcessed
    /// The connection ended after it was written.
    case lost(text: String)
    case timedOut(milliseconds: Int64)
  }

  package enum Action: Hashable, Sendable {
    /// APNs carried it out: read its answer.
    case take
    /// Send it again; on another connection if `closing`.
    case sendAgain(closing: Bool, afterMilliseconds: Int64)
    /// Renew the provider token, then send the request again on another connection.
    case renew
    case fail(ChannelFailure.Kind)
  }

  /// How often a request that was surely not processed is repeated at once.
  package static let resendsMaximum: UInt8 = Verdict.resendsMaximum
  /// How long a request waits after APNs refused it because APNs is overloaded.
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
      // A token is renewed once. A second refusal has another cause than the token's age.
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
      // A pause needs an operator, so waiting half a second does not help.
      guard isRepeatable, !isRepeated, verdict.pause == .none, verdict.token == .keep else { return refusal }
      isRepeated = true
      isPerhapsDone = true
      return .sendAgain(closing: verdict.connection == .close, afterMilliseconds: ChannelCallState.restMilliseconds)
    case .reject, .dead, .unregisteredBefore:
      // The earlier sending may have deleted the channel.
      if isPerhapsDone, reason == .channelNotRegistered, case .delete = request.operation { return .take }
      return refusal
    }
  }
}
