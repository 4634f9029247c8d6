import APNsSimulator
import PushChannels
import PushCore
import PushIO
import Testing

/// Channel management through an HTTP CONNECT proxy: our client, the proxy, and the strict simulator behind it.
@Suite(.timeLimit(.minutes(2)))
struct ChannelProxyTests {
  /// Turns until all answers are reported; false: not within a minute.
  private func turn(_ loop: EventLoop, _ client: ChannelClient, until isDone: () -> Bool) -> Bool {
    let start = ContinuousClock.now
    while !isDone() {
      loop.poll(maximumWaitMilliseconds: 20)
      client.turn()
      loop.flush()
      if ContinuousClock.now - start > .seconds(60) { return false }
    }
    return true
  }

  private func client(_ world: ChannelWorld, _ loop: EventLoop, _ proxy: ConnectProxy) -> ChannelClient {
    let host = APNsHost(host: "localhost", port: world.ports.managePort ?? 0)
    var configuration = ChannelClientConfiguration(production: host, sandbox: host)
    configuration.connectOptions.proxy = Proxy(
      endpoint: Endpoint(host: "127.0.0.1", port: proxy.port), user: "me", password: "p:w")
    return ChannelClient(loop: loop, credentials: world.credentials, configuration: configuration, seed: 1)
  }

  @Test func makesAndListsChannelsThroughTheTunnel() throws {
    let world = try ChannelWorld()
    let loop = try EventLoop()
    let proxy = try ConnectProxy(loop: loop)
    let client = client(world, loop, proxy)
    var contents: [ChannelAnswer.Content] = []
    var failures: [ChannelFailure] = []
    for operation in [ChannelRequest.Operation.create(.mostRecent), .list] {
      client.perform(ChannelRequest(operation, in: ChannelWorld.scope)) { result in
        switch result {
        case .success(let answer): contents.append(answer.content)
        case .failure(let failure): failures.append(failure)
        }
      }
      #expect(turn(loop, client) { client.inFlight == 0 })
    }
    #expect(failures == [])
    guard case .created(let id)? = contents.first else { throw APNsTestFailure("\(contents)") }
    #expect(contents.last == .listed([id]) && world.existing() == 1)
    let target = "localhost:\(world.ports.managePort ?? 0)"
    #expect(
      proxy.heads == [
        "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\nProxy-Authorization: Basic bWU6cDp3\r\n\r\n"
      ], "one tunnel for both")
    client.close()
    #expect(turn(loop, client) { client.isClosed })
  }

  /// Nothing was sent, and the failure names the proxy and its answer.
  @Test func aProxyThatRefusesIsNamed() throws {
    let world = try ChannelWorld()
    let loop = try EventLoop()
    let proxy = try ConnectProxy(loop: loop)
    proxy.refusal = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
    let client = client(world, loop, proxy)
    var failure: ChannelFailure?
    client.perform(ChannelRequest(.create(.none), in: ChannelWorld.scope)) { result in
      if case .failure(let reported) = result { failure = reported }
    }
    #expect(turn(loop, client) { client.inFlight == 0 })
    let reported = try #require(failure)
    #expect(!reported.isAmbiguous && reported.isTemporary)
    #expect(reported.description.contains("the proxy 127.0.0.1:\(proxy.port) refused the login (407"), "\(reported)")
    #expect(!reported.description.contains("p:w") && world.existing() == 0)
  }
}
