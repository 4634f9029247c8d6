import PushChannels
package import PushCore

/// Channel management at APNs, as the registry and the channel consumer see it: asked on a loop's thread, answered on the same one.
package protocol ChannelManaging: AnyObject {
  /// Sends a request. `then` is called once, perhaps inside this call, with APNs' answer or why there is none.
  func perform(_ request: ChannelRequest, then: @escaping (Result<ChannelAnswer, ChannelFailure>) -> Void)
}

extension ChannelClient: ChannelManaging {}
