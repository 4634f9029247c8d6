import CLinux
import Glibc
import PushCore

/// One connect: resolves the name and tries its addresses, IPv6 and IPv4 alternating. If one is slow to answer, the next is tried beside it
/// (RFC 8305). The first socket to connect wins; the others are closed.
final class Connector {
  private enum State {
    /// The name is being looked up. → trying, ended
    case resolving(request: UInt64)
    /// Attempts are in progress or scheduled. → tunnelling, ended
    case trying
    /// A socket is connected to the proxy, which is asked for a tunnel. → ended
    case tunnelling
    /// The result was reported, or the connect was cancelled.
    case ended
  }

  typealias Outcome = Result<(fileDescriptor: Int32, address: SocketAddress), TransportError>

  /// Outlives every call here: the loop retains the transport that retains this.
  private unowned let loop: EventLoop
  private let endpoint: Endpoint
  /// The endpoint, or the proxy in front of it.
  private let peer: Endpoint
  private let options: ConnectOptions
  private let outcome: (Outcome) -> Void
  private var state = State.trying
  private var addresses: [SocketAddress] = []
  private var nextAddress = 0
  private var attempts: [ConnectAttempt] = []
  private var failures: [String] = []
  private var stagger: TimerToken?
  private var proxyHandshake: ProxyHandshake?

  /// `outcome` is called once, from inside `poll`, unless `cancel` comes first.
  init(loop: EventLoop, endpoint: Endpoint, options: ConnectOptions, outcome: @escaping (Outcome) -> Void) {
    self.loop = loop
    self.endpoint = endpoint
    peer = options.proxy?.endpoint ?? endpoint
    self.options = options
    self.outcome = outcome
  }

  func start() {
    if let path = peer.unixPath {
      guard let address = SocketAddress(unixPath: path) else {
        failLater(TransportError(kind: .connect, peer: peer.description, text: "a unix path has 1 to 107 bytes"))
        return
      }
      begin([address])
    } else if let address = SocketAddress(numericHost: peer.host, port: peer.port) {
      begin([address])
    } else {
      let request = loop.resolver.resolve(host: peer.host, port: peer.port) { [weak self] result in
        self?.resolved(result)
      }
      if let request {
        state = .resolving(request: request)
      } else {
        failLater(TransportError(kind: .resolve, peer: peer.description, text: "too many look-ups are waiting"))
      }
    }
  }

  func cancel() {
    if case .resolving(let request) = state { loop.resolver.cancel(request) }
    end()
  }

  // MARK: - Addresses

  private func resolved(_ result: Result<[SocketAddress], ResolverError>) {
    guard case .resolving = state else { return }
    state = .trying
    switch result {
    case .success(let found):
      begin(Connector.interleaved(found))
    case .failure(let error):
      finish(.failure(TransportError(kind: .resolve, peer: peer.description, text: error.description)))
    }
  }

  /// IPv6 first, then alternating; shuffled within a family, so that many connections spread over a service's hosts.
  static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
    let six = addresses.filter(\.isIPv6).shuffled()
    let four = addresses.filter { !$0.isIPv6 }.shuffled()
    var result: [SocketAddress] = []
    for index in 0..<max(six.count, four.count) {
      if index < six.count { result.append(six[index]) }
      if index < four.count { result.append(four[index]) }
    }
    return result
  }

  private func begin(_ found: [SocketAddress]) {
    state = .trying
    addresses = found
    tryNext()
  }

  private func tryNext() {
    if let stagger { loop.cancel(stagger) }
    stagger = nil
    while nextAddress < addresses.count {
      let address = addresses[nextAddress]
      nextAddress += 1
      let attempt = ConnectAttempt(loop: loop, address: address) { [weak self] attempt, failure in
        self?.attemptEnded(attempt, failure: failure)
      }
      if let failure = attempt.start(timeoutMilliseconds: options.attemptTimeoutMilliseconds) {
        failures.append("\(address): \(failure)")
        continue
      }
      attempts.append(attempt)
      if nextAddress < addresses.count {
        stagger = loop.schedule(afterMilliseconds: options.staggerMilliseconds) { [weak self] in self?.tryNext() }
      }
      return
    }
    if attempts.isEmpty { failLater(noAddressAnswered()) }
  }

  private func attemptEnded(_ attempt: ConnectAttempt, failure: String?) {
    guard case .trying = state else { return }
    attempts.removeAll { $0 === attempt }
    if let failure {
      failures.append("\(attempt.address): \(failure)")
      if nextAddress < addresses.count {
        tryNext()
      } else if attempts.isEmpty {
        finish(.failure(noAddressAnswered()))
      }
    } else {
      connected(attempt.takeDescriptor(), attempt.address)
    }
  }

  private func connected(_ descriptor: Int32, _ address: SocketAddress) {
    guard let proxy = options.proxy else {
      finish(.success((descriptor, address)))
      return
    }
    // The other attempts are no longer needed.
    end()
    state = .tunnelling
    let handshake = ProxyHandshake(
      loop: loop, fileDescriptor: descriptor, tunnel: ProxyTunnel(proxy: proxy, target: endpoint)
    ) { [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let descriptor): finish(.success((descriptor, address)))
      case .failure(let failure):
        finish(.failure(TransportError(kind: .proxy, peer: endpoint.description, text: failure.text)))
      }
    }
    proxyHandshake = handshake
    handshake.start()
  }

  private func noAddressAnswered() -> TransportError {
    TransportError(
      kind: .connect, peer: peer.description,
      text: "no address took the connection (\(failures.joined(separator: "; ")))")
  }

  // MARK: - The end

  private func failLater(_ error: TransportError) {
    // Never from inside the call that started the connect.
    loop.schedule(afterMilliseconds: 0) { [weak self] in self?.finish(.failure(error)) }
  }

  private func finish(_ result: Outcome) {
    if case .ended = state { return }
    end()
    outcome(result)
  }

  private func end() {
    state = .ended
    if let stagger { loop.cancel(stagger) }
    stagger = nil
    for attempt in attempts { attempt.cancel() }
    attempts.removeAll()
    proxyHandshake?.cancel()
    proxyHandshake = nil
  }
}
