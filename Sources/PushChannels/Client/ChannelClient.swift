package import PushCore
package import PushCredentials
package import PushIO
import PushSettings

/// APNs' channel management on one event loop: one connection for each (credential, environment) in use, opened at its first request and
/// closed when idle.
///
/// `perform` queues; the owner of the loop calls `turn` after each `poll`, at least every tenth of a second, and `flush`
/// after it. Each request is reported exactly once, from inside `turn` or `perform`, within about twice
/// `requestTimeoutMilliseconds` of its sending.
package final class ChannelClient {
  private struct Entry {
    let place: Int
    let environment: APNsEnvironment
    let pool: ChannelPool
  }

  private let loop: EventLoop
  private let configuration: ChannelClientConfiguration
  private var credentials: Credentials
  /// In the order of creation, which is the order of their turns.
  private var entries: [Entry] = []
  /// Pools of credentials that a reload replaced, until their connections have ended.
  private var retired: [ChannelPool] = []
  /// Names of revoked credentials.
  private var revoked: Set<String> = []
  private var random: SeededRandom
  private var isClosing = false

  /// `seed`: for request ids and jitter, different in each client.
  package init(loop: EventLoop, credentials: Credentials, configuration: ChannelClientConfiguration, seed: UInt64) {
    self.loop = loop
    self.credentials = credentials
    self.configuration = configuration
    random = SeededRandom(seed: seed)
  }

  /// Sends the request, with a new `apns-request-id` if it has none, and reports the result.
  package func perform(
    _ request: ChannelRequest, then: @escaping (Result<ChannelAnswer, ChannelFailure>) -> Void
  ) {
    let call = ChannelCall(
      request, requestID: request.requestID ?? UUIDValue.version4(&random), now: loop.now.monotonic, then: then)
    if isClosing {
      call.fail(.closed, host: configuration.host(request.scope.environment))
    } else {
      route(call)
    }
  }

  private func route(_ call: ChannelCall) {
    let environment = call.request.scope.environment
    do throws(RoutingError) {
      let place = try credentials.place(for: call.request)
      if let name = credentials.all[place]?.name, revoked.contains(name) {
        call.fail(.revoked(credential: name), host: configuration.host(environment))
      } else {
        pool(place, environment).perform(call)
      }
    } catch {
      call.fail(.noCredential(text: error.detail), host: configuration.host(environment))
    }
  }

  /// Whose connection carries the request; nil: no credential serves it.
  package func pool(for request: ChannelRequest) -> ChannelPoolID? {
    guard let place = try? credentials.place(for: request), let name = credentials.all[place]?.name else { return nil }
    return ChannelPoolID(credential: name, environment: request.scope.environment)
  }

  /// Requests that are not reported yet.
  package var inFlight: Int {
    entries.reduce(0) { $0 + $1.pool.callCount } + retired.reduce(0) { $0 + $1.callCount }
  }

  /// Call once a turn of the loop.
  package func turn() {
    for entry in entries { entry.pool.turn() }
    for pool in retired { pool.turn() }
    retired.removeAll { $0.isClosed }
  }

  /// Applies reloaded credentials. Those whose key, certificate or apps changed get new connections; requests in flight finish on the old
  /// ones.
  /// - Parameter names: credentials that stay revoked.
  package func replaceCredentials(_ newer: Credentials, revoked names: Set<String> = []) {
    var waiting: [ChannelCall] = []
    entries.removeAll { entry in
      if let credential = newer.all[entry.place], let older = credentials.all[entry.place],
        credential.shares(connectionsOf: older), credential.configuration.environments.contains(entry.environment)
      {
        entry.pool.credential = credential
        return false
      }
      waiting += entry.pool.close()
      retired.append(entry.pool)
      return true
    }
    credentials = newer
    revoked = names
    for call in waiting { route(call) }
  }

  /// Ends every connection of a credential at once and opens no more while it is revoked. Requests in flight get no answer;
  /// waiting and later requests fail as `revoked`. An unknown name changes nothing.
  package func revoke(credential name: String) {
    guard let place = credentials.all.firstIndex(where: { $0?.name == name }) else { return }
    revoked.insert(name)
    let ending = entries.filter { $0.place == place }
    entries.removeAll { $0.place == place }
    retired += ending.map(\.pool)
    for entry in ending {
      for call in entry.pool.revoke() {
        call.fail(.revoked(credential: name), host: configuration.host(entry.environment))
      }
    }
    // A reload replaced these, and their requests in flight were to finish.
    for pool in retired where pool.credential.name == name { _ = pool.revoke() }
  }

  /// Takes no more requests and lets those in flight finish; waiting ones fail as `closed`.
  package func close() {
    isClosing = true
    for entry in entries {
      for call in entry.pool.close() { call.fail(.closed, host: configuration.host(entry.environment)) }
    }
  }

  /// After `close`: everything was reported and every connection has ended.
  package var isClosed: Bool { isClosing && retired.isEmpty && entries.allSatisfy { $0.pool.isClosed } }

  private func pool(_ place: Int, _ environment: APNsEnvironment) -> ChannelPool {
    if let entry = entries.first(where: { $0.place == place && $0.environment == environment }) { return entry.pool }
    guard let credential = credentials.all[place] else { preconditionFailure("a request is routed to a credential") }
    let pool = ChannelPool(
      loop: loop, credential: credential, environment: environment, tokens: credentials.tokens,
      configuration: configuration, seed: random.next())
    entries.append(Entry(place: place, environment: environment, pool: pool))
    return pool
  }
}
