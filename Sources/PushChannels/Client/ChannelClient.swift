package import PushCore
package import PushCredentials
package import PushIO
import PushSettings

/// APNs' channel management on one event loop: one connection for each (credential, environment) that is asked for,
/// opened at its first request and closed when idle.
///
/// `perform` queues; the owner of the loop calls `turn` after each `poll`, at least every tenth of a second, and `flush`
/// after it. Each request is reported exactly once, from inside `turn` or `perform`, within about twice
/// `requestTimeoutMilliseconds` of its sending.
package final class ChannelClient {
  private struct LinkName: Hashable {
    let place: Int
    let environment: APNsEnvironment
  }

  private let loop: EventLoop
  private let configuration: ChannelClientConfiguration
  private var credentials: Credentials
  private var links: [LinkName: ChannelPool] = [:]
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

  /// Sends the request, with an `apns-request-id` of its own where it has none, and tells what came of it.
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

  /// Requests that were not reported yet.
  package var inFlight: Int {
    links.values.reduce(0) { $0 + $1.callCount } + retired.reduce(0) { $0 + $1.callCount }
  }

  /// Once a turn of the loop.
  package func turn() {
    for link in links.values { link.turn() }
    for link in retired { link.turn() }
    retired.removeAll { $0.isClosed }
  }

  /// Takes reloaded credentials into use. Those whose key, certificate or apps changed get new connections; what was sent
  /// finishes on the old ones.
  package func replaceCredentials(_ newer: Credentials) {
    var waiting: [ChannelCall] = []
    for (name, link) in links {
      if let credential = newer.all[name.place], let older = credentials.all[name.place],
        credential.shares(connectionsOf: older), credential.configuration.environments.contains(name.environment)
      {
        link.credential = credential
        continue
      }
      waiting += link.close()
      retired.append(link)
      links[name] = nil
    }
    credentials = newer
    revoked = []
    for call in waiting { route(call) }
  }

  /// Ends every connection of a credential at once and opens no more until the credentials are replaced: of what was sent
  /// nobody hears the answer, and what waits and what comes fails as `revoked`. A name that no credential has changes nothing.
  package func revoke(credential name: String) {
    guard let place = credentials.all.firstIndex(where: { $0?.name == name }) else { return }
    revoked.insert(name)
    for (linkName, link) in links where linkName.place == place {
      for call in link.revoke() {
        call.fail(.revoked(credential: name), host: configuration.host(linkName.environment))
      }
      retired.append(link)
      links[linkName] = nil
    }
    // A reload replaced these, and what was sent was to finish.
    for link in retired where link.credential.name == name { _ = link.revoke() }
  }

  /// Takes no more requests and lets those that were sent finish; those that wait fail as `closed`.
  package func close() {
    isClosing = true
    for (name, link) in links {
      for call in link.close() { call.fail(.closed, host: configuration.host(name.environment)) }
    }
  }

  /// Everything was reported and every connection has ended, after `close`.
  package var isClosed: Bool { isClosing && retired.isEmpty && links.values.allSatisfy { $0.isClosed } }

  private func link(_ place: Int, _ environment: APNsEnvironment) -> ChannelPool {
    let name = LinkName(place: place, environment: environment)
    if let link = links[name] { return link }
    guard let credential = credentials.all[place] else { preconditionFailure("a request is routed to a credential") }
    let link = ChannelPool(
      loop: loop, credential: credential, environment: environment, tokens: credentials.tokens,
      configuration: configuration, seed: random.next())
    links[name] = link
    return link
  }
}
