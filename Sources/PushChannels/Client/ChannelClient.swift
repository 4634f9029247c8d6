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
  private struct Link {
    let place: Int
    let environment: APNsEnvironment
    let pool: ChannelPool
  }

  private let loop: EventLoop
  private let configuration: ChannelClientConfiguration
  private var credentials: Credentials
  /// As they were made: each has its turn in this order. They are few.
  private var links: [Link] = []
  /// Links of credentials that a reload replaced, until their connections have ended.
  private var retired: [ChannelPool] = []
  /// Names of credentials that were revoked since they were replaced last.
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
        link(place, environment).perform(call)
      }
    } catch {
      call.fail(.noCredential(text: error.detail), host: configuration.host(environment))
    }
  }

  /// Requests that are not reported yet.
  package var inFlight: Int {
    links.reduce(0) { $0 + $1.pool.callCount } + retired.reduce(0) { $0 + $1.callCount }
  }

  /// Call once a turn of the loop.
  package func turn() {
    for link in links { link.pool.turn() }
    for link in retired { link.turn() }
    retired.removeAll { $0.isClosed }
  }

  /// Applies reloaded credentials. Those whose key, certificate or apps changed get new connections; requests in flight finish on the old
  /// ones.
  package func replaceCredentials(_ newer: Credentials) {
    var waiting: [ChannelCall] = []
    links.removeAll { link in
      if let credential = newer.all[link.place], let older = credentials.all[link.place],
        credential.shares(connectionsOf: older), credential.configuration.environments.contains(link.environment)
      {
        link.pool.credential = credential
        return false
      }
      waiting += link.pool.close()
      retired.append(link.pool)
      return true
    }
    credentials = newer
    revoked = []
    for call in waiting { route(call) }
  }

  /// Ends every connection of a credential at once and opens no more until the credentials are replaced. Requests in flight get no answer;
  /// waiting and later requests fail as `revoked`. An unknown name changes nothing.
  package func revoke(credential name: String) {
    guard let place = credentials.all.firstIndex(where: { $0?.name == name }) else { return }
    revoked.insert(name)
    let ending = links.filter { $0.place == place }
    links.removeAll { $0.place == place }
    retired += ending.map(\.pool)
    for link in ending {
      for call in link.pool.revoke() {
        call.fail(.revoked(credential: name), host: configuration.host(link.environment))
      }
    }
    // A reload replaced these, and their requests in flight were to finish.
    for link in retired where link.credential.name == name { _ = link.revoke() }
  }

  /// Takes no more requests and lets those in flight finish; waiting ones fail as `closed`.
  package func close() {
    isClosing = true
    for link in links {
      for call in link.pool.close() { call.fail(.closed, host: configuration.host(link.environment)) }
    }
  }

  /// After `close`: everything was reported and every connection has ended.
  package var isClosed: Bool { isClosing && retired.isEmpty && links.allSatisfy { $0.pool.isClosed } }

  private func link(_ place: Int, _ environment: APNsEnvironment) -> ChannelPool {
    if let link = links.first(where: { $0.place == place && $0.environment == environment }) { return link.pool }
    guard let credential = credentials.all[place] else { preconditionFailure("a request is routed to a credential") }
    let pool = ChannelPool(
      loop: loop, credential: credential, environment: environment, tokens: credentials.tokens,
      configuration: configuration, seed: random.next())
    links.append(Link(place: place, environment: environment, pool: pool))
    return pool
  }
}
