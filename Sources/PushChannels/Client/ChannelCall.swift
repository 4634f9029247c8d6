import PushCore
import PushIO

/// One request in a `ChannelClient`: queued, sent (perhaps again), reported once.
final class ChannelCall {
  typealias Completion = (Result<ChannelAnswer, ChannelFailure>) -> Void

  let request: ChannelRequest
  /// `apns-request-id`, the same for each sending.
  let requestID: UUIDValue
  var state: ChannelCallState
  /// When it last began to wait for a stream.
  var waitingSince: Instant
  private let then: Completion

  init(_ request: ChannelRequest, requestID: UUIDValue, now: Instant, then: @escaping Completion) {
    var request = request
    request.requestID = requestID
    self.request = request
    self.requestID = requestID
    self.then = then
    waitingSince = now
    state = ChannelCallState(request)
  }

  func succeed(_ answer: ChannelAnswer) {
    then(.success(answer))
  }

  func fail(_ kind: ChannelFailure.Kind, host: APNsHost) {
    then(.failure(ChannelFailure(kind, request: request, host: host.endpoint.description)))
  }
}
