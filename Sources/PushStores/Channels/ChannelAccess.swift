import PushChannels
import PushCore
import PushIO

/// The channel management of all credentials, and what requests may take of it: learned from the answers.
final class ChannelAccess: ChannelManaging {
  typealias Shares = ChannelShares<ChannelConsumerRequest>

  let client: ChannelClient
  var shares: Shares

  init(_ client: ChannelClient, _ shares: Shares) {
    self.client = client
    self.shares = shares
  }

  func perform(_ request: ChannelRequest, then: @escaping (Result<ChannelAnswer, ChannelFailure>) -> Void) {
    guard let pool = client.pool(for: request) else { return client.perform(request, then: then) }
    let asked = shares.asked(pool)
    client.perform(request) { [weak self] result in
      self?.shares.answered(pool, ShareState.Answer(result), since: asked)
      then(result)
    }
  }

  /// Whose channel management answers a request of the queue; nil: no credential serves its app.
  func pool(of job: ChannelJob) -> ChannelPoolID? { client.pool(for: ChannelRequest(.list, in: job.scope)) }
}

extension ShareState.Answer {
  fileprivate init(_ result: Result<ChannelAnswer, ChannelFailure>) {
    guard case .failure(let failure) = result else {
      self = .good
      return
    }
    self =
      switch failure.kind {
      case .refused(let status, _): status < 500 ? .good : .bad
      case .notUnderstood: .good
      case .unanswered, .unreachable, .noCredential, .noProviderToken, .revoked, .tooManyWaiting, .closed: .bad
      }
  }
}
