package import Logging
import PushCore
package import PushCredentials
package import PushIO
package import PushSettings
import Synchronization

/// Provider tokens shared through Redis: a thread beside the lanes with one connection.
///
/// `ProviderTokenFleetState` decides, and `RedisProviderTokenClient` runs it on that thread. This is the interface for
/// other threads.
package final class RedisProviderTokenStore: ProviderTokenStore {
  /// A request to the thread.
  enum Letter: Sendable {
    case ask(ProviderTokenName, newerThan: Int64, refused: Int64, ProviderTokens.Asker)
    case offer(ProviderTokenName, token: [UInt8], issuedAt: Int64, ProviderTokens.Asker)
    case decline(ProviderTokenName)
    case serves(ProviderTokenName, token: [UInt8], issuedAt: Int64, ProviderTokens.Asker)
  }

  private struct State {
    var letters: [Letter] = []
    var mailbox: Mailbox?
    var thread: LoopThread?
    var isStopping = false
  }

  private let configuration: RedisConfiguration
  private let tls: TLSContext?
  private let prefix: String
  private let seal: TokenSeal?
  private let onProblem: @Sendable (String) -> Void
  private let state = Mutex(State())

  /// - Parameters:
  ///   - prefix: of every key.
  ///   - seal: hides tokens from readers of Redis; nil: they are stored in plain text.
  ///   - onProblem: called on the store's thread if a stored token cannot be read; once until one can.
  package init(
    configuration: RedisConfiguration, tls: TLSContext?, prefix: String, seal: TokenSeal? = nil,
    onProblem: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    var own = configuration
    // The processes of a fleet also use it to find out whether they are alone.
    own.clientName = "herald-tokens:\(prefix)"
    self.configuration = own
    self.tls = tls
    self.prefix = prefix
    self.seal = seal
    self.onProblem = onProblem
  }

  /// With the Redis of a configuration.
  package convenience init(_ configuration: Configuration, logger: Logger) throws {
    let redis = try RedisConfiguration(url: configuration.redis.url)
    self.init(
      configuration: redis, tls: try configuration.redis.tls(redis), prefix: configuration.redis.prefix,
      seal: try configuration.redis.tokenKeyFile.map(TokenSeal.init(file:))
    ) { problem in logger.warning("redis: \(problem)") }
  }

  /// Starts the thread, which connects. It answers earlier requests then. Call it once.
  package func start(_ wallClock: WallClock) {
    let thread = LoopThread(name: "tokens") { [self] in run(wallClock) }
    state.withLock { $0.thread = thread }
  }

  /// Ends the thread and its connection; requests are no longer answered.
  package func stop() {
    let (thread, mailbox) = state.withLock { state in
      state.isStopping = true
      defer { state.thread = nil }
      return (state.thread, state.mailbox)
    }
    mailbox?.wake()
    thread?.join()
  }

  package func ask(
    _ name: ProviderTokenName, newerThan: Int64, refused: Int64, from asker: ProviderTokens.Asker
  ) {
    post(.ask(name, newerThan: newerThan, refused: refused, asker))
  }

  package func offer(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, from asker: ProviderTokens.Asker) {
    post(.offer(name, token: token, issuedAt: issuedAt, asker))
  }

  package func decline(_ name: ProviderTokenName) {
    post(.decline(name))
  }

  package func serves(_ name: ProviderTokenName, token: [UInt8], issuedAt: Int64, at asker: ProviderTokens.Asker) {
    post(.serves(name, token: token, issuedAt: issuedAt, asker))
  }

  private func post(_ letter: Letter) {
    // Bounded by the askers: each has one request at a time, and a token changes at most every 20 minutes.
    let mailbox = state.withLock { state in
      if !state.isStopping { state.letters.append(letter) }
      return state.mailbox
    }
    mailbox?.wake()
  }

  private func run(_ wallClock: WallClock) {
    let loop: EventLoop
    do {
      loop = try EventLoop(wallClock: wallClock)
    } catch {
      // Each process works alone then: no answer means "unreachable".
      onProblem("provider tokens are not shared: \(error)")
      return
    }
    work(on: loop, seed: .random(in: .min ... .max)).run()
  }

  /// The work of its thread, until it is stopped.
  /// - Parameter seed: of all its random numbers.
  package func work(on loop: EventLoop, seed: UInt64) -> any LoopWork {
    Work(
      store: self, loop: loop,
      client: RedisProviderTokenClient(
        loop: loop, configuration: configuration, tls: tls, prefix: prefix, seal: seal, seed: seed,
        onProblem: onProblem))
  }

  private final class Work: LoopWork {
    let loop: EventLoop
    private let store: RedisProviderTokenStore
    private let client: RedisProviderTokenClient
    /// Requests before the mailbox was set woke nobody.
    private var hasBegun = false

    init(store: RedisProviderTokenStore, loop: EventLoop, client: RedisProviderTokenClient) {
      self.store = store
      self.loop = loop
      self.client = client
      store.state.withLock { $0.mailbox = loop.mailbox }
    }

    var waitMilliseconds: Int { hasBegun ? client.waitMilliseconds : 0 }

    func turn() -> Bool {
      loop.poll(maximumWaitMilliseconds: waitMilliseconds)
      hasBegun = true
      let (letters, isStopping) = store.state.withLock { state in
        defer { state.letters = [] }
        return (state.letters, state.isStopping)
      }
      if isStopping {
        store.state.withLock { $0.mailbox = nil }
        client.close()
        loop.flush()
        return false
      }
      for letter in letters { client.take(letter) }
      client.turn()
      loop.flush()
      return true
    }
  }
}
