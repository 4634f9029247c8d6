package import Logging
import PushChannels
package import PushCore
import PushCredentials
import PushIO
package import PushSettings
import PushStores

/// Channel management for commands: the configuration's credentials, and the provider tokens that the fleet shares.
///
/// APNs refuses tokens that change too often, so a command uses the running workers' token. If Redis does not answer within half a second,
/// it makes its own.
package struct FleetChannelClient: Sendable {
  private let thread: AsyncChannelClient
  private let tokenStore: RedisProviderTokenStore

  /// Loads keys and certificates. Throws if something in the configuration is wrong; only Redis is connected yet.
  package init(_ configuration: Configuration, logger: Logger) throws {
    tokenStore = try RedisProviderTokenStore(configuration, logger: logger)
    let credentials = try Credentials(
      configuration.credentials, for: configuration.apns, tokens: ProviderTokens(store: tokenStore))
    let wallClock = WallClock()
    tokenStore.start(wallClock)
    thread = AsyncChannelClient(
      credentials: credentials, configuration: ChannelClientConfiguration(configuration.apns), wallClock: wallClock)
  }

  /// Sends the request and waits for its result.
  package func perform(_ request: ChannelRequest) async throws(ChannelFailure) -> ChannelAnswer {
    try await thread.perform(request)
  }

  /// Ends connections and threads. Blocks for a moment.
  package func close() {
    thread.close()
    tokenStore.stop()
  }
}
