/// The attempts of a channel request, as traces of event → action.
import PushCore
import Testing

@Suite struct ChannelCallStateTests {
  typealias Event = ChannelCallState.Event
  typealias Action = ChannelCallState.Action

  static let create = ChannelRequest(.create(.none), in: ChannelValueTests.scope)
  static let list = ChannelRequest(.list, in: ChannelValueTests.scope)
  static let delete = ChannelRequest(.delete(ChannelValueTests.id), in: ChannelValueTests.scope)

  private func trace(_ request: ChannelRequest, _ steps: [(Event, Action)]) {
    var state = ChannelCallState(request)
    for (event, action) in steps {
      let next = state.ended(event, of: request)
      #expect(next == action, "\(event)")
    }
  }

  private func refused(_ status: UInt16, _ reason: APNsReason?) -> Action {
    .fail(.refused(status: status, reason: reason))
  }

  @Test func takesSuccess() {
    trace(ChannelCallStateTests.create, [(.answered(status: 201, reason: nil), .take)])
    trace(ChannelCallStateTests.delete, [(.answered(status: 204, reason: nil), .take)])
  }

  @Test func repeatsNoCreateThatMayBeDone() {
    trace(ChannelCallStateTests.create, [(.lost(text: "gone"), .fail(.unanswered(text: "gone")))])
    trace(
      ChannelCallStateTests.create,
      [(.timedOut(milliseconds: 10_000), .fail(.unanswered(text: "none came within 10000 ms")))])
    for reason in [APNsReason.internalServerError, .serviceUnavailable, .tooManyRequests] {
      trace(ChannelCallStateTests.create, [(.answered(status: 500, reason: reason), refused(500, reason))])
    }
  }

  @Test func repeatsOthersOnce() {
    trace(
      ChannelCallStateTests.list,
      [
        (.lost(text: "gone"), .sendAgain(closing: true, afterMilliseconds: 0)),
        (.lost(text: "again"), .fail(.unanswered(text: "again"))),
      ])
    trace(
      ChannelCallStateTests.list,
      [
        (
          .answered(status: 503, reason: .serviceUnavailable),
          .sendAgain(closing: false, afterMilliseconds: ChannelCallState.restMilliseconds)
        ),
        (.timedOut(milliseconds: 5), .fail(.unanswered(text: "none came within 5 ms"))),
      ])
  }

  @Test func aSecondDeleteFindsNothing() {
    trace(
      ChannelCallStateTests.delete,
      [
        (.lost(text: "gone"), .sendAgain(closing: true, afterMilliseconds: 0)),
        (.answered(status: 404, reason: .channelNotRegistered), .take),
      ])
    trace(
      ChannelCallStateTests.delete,
      [(.answered(status: 404, reason: .channelNotRegistered), refused(404, .channelNotRegistered))])
  }

  @Test func repeatsWhatWasNotProcessed() {
    let again = Action.sendAgain(closing: false, afterMilliseconds: 0)
    trace(
      ChannelCallStateTests.create,
      [
        (.notProcessed, again), (.notProcessed, again), (.notProcessed, again),
        (
          .notProcessed,
          .fail(.unreachable(text: "the connection was closed 4 times before the request was taken"))
        ),
      ])
    let closing = Action.sendAgain(closing: true, afterMilliseconds: 0)
    trace(
      ChannelCallStateTests.create,
      [
        (.answered(status: 503, reason: .shutdown), closing), (.answered(status: 503, reason: .shutdown), closing),
        (.answered(status: 503, reason: .shutdown), closing),
        (.answered(status: 503, reason: .shutdown), refused(503, .shutdown)),
      ])
  }

  @Test func renewsOnce() {
    trace(
      ChannelCallStateTests.create,
      [
        (.notProcessed, .sendAgain(closing: false, afterMilliseconds: 0)),
        (.answered(status: 403, reason: .expiredProviderToken), .renew),
        (.answered(status: 403, reason: .expiredProviderToken), refused(403, .expiredProviderToken)),
      ])
  }

  @Test func repeatsNothingThatPeopleMustChange() {
    let reasons: [APNsReason] = [
      .invalidProviderToken, .featureNotEnabled, .topicMismatch, .tooManyProviderTokenUpdates, .badCertificate,
      .cannotCreateChannelConfig, .badChannelId,
    ]
    for reason in reasons {
      trace(ChannelCallStateTests.list, [(.answered(status: 403, reason: reason), refused(403, reason))])
    }
  }
}
