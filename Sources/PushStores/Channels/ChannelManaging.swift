import PushChannels
package import PushCore

/// Channel management at APNs, as the registry and the channel consumer use it. Calls and callbacks run on a loop's
/// thread.
package protocol ChannelManaging: AnyObject {
  /// Sends a request. `then` is called once, possibly inside this call, with APNs' answer or the reason why there is
  /// none.
  func perform(_ request: ChannelRequest, then: @escaping (Result<ChannelAnswer, ChannelFailure>) -> Void)
}

extension ChannelClient: ChannelManaging {}
