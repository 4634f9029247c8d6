package import Logging
import PushChannels
package import PushCore
import PushCredentials
package import PushSettings
import PushStores

/// Channel management for commands: the configuration's credentials, and the provider tokens that the fleet shares.
///
/// APNs refuses tokens that change too often, so a command carries the one that running workers carry. Where Redis does
/// not answer (within half a second) it makes one for itself.
package struct FleetChannelClient: Sendable {
  private let thread: AsyncChannelClient
  private let tokenStore: RedisProviderTokenStore

  /// Loads keys and certificates. Throws what is wrong with the configuration; nothing is connected yet but Redis.
  package init(_ configuration: Configuration, logger: Logger) throws {
    tokenStore = try RedisProviderTokenStore(configuration, logger: logger)
    let credentials = try Credentials(
      configuration.credentials, for: configuration.apns, tokens: ProviderTokens(store: tokenStore))
    tokenStore.start()
    thread = AsyncChannelClient(
      credentials: credentials, configuration: ChannelClientConfiguration(configuration.apns))
  }

  /// Sends the request and waits for what comes of it.
  package func perform(_ request: ChannelRequest) async throws(ChannelFailure) -> ChannelAnswer {
    try await thread.perform(request)
  }

  /// Ends connections and threads. Blocks for a moment.
  package func close() {
    thread.close()
    tokenStore.stop()
  }
}
