package import PushCore
package import PushCredentials
package import PushIO
import Synchronization

/// A `ChannelClient` on its own thread, for callers without an event loop: commands, and the library.
package final class AsyncChannelClient: Sendable {
  private let runner: AsyncChannelClientRunner
  private let thread: Mutex<LoopThread?>

  /// Starts the thread. No connection is opened before the first request.
  package init(
    credentials: Credentials, configuration: ChannelClientConfiguration, wallClock: WallClock = WallClock()
  ) {
    let runner = AsyncChannelClientRunner(credentials: credentials, configuration: configuration)
    self.runner = runner
    thread = Mutex(LoopThread(name: "channels") { runner.run(wallClock) })
  }

  deinit {
    close()
  }

  /// Sends the request and waits for its result, which the client's timeouts bound. A task that is cancelled meanwhile still waits, because
  /// the request was sent.
  package func perform(_ request: ChannelRequest) async throws(ChannelFailure) -> ChannelAnswer {
    let result = await withCheckedContinuation { continuation in
      runner.post(request) { continuation.resume(returning: $0) }
    }
    return try result.get()
  }

  /// Takes no more requests, lets those in flight finish, and ends the thread. Blocks until then.
  package func close() {
    runner.close()
    thread.withLock { $0.take() }?.join()
  }
}

/// The shared state of an `AsyncChannelClient` and its thread, and the thread's work.
private final class AsyncChannelClientRunner: Sendable {
  typealias Completion = @Sendable (Result<ChannelAnswer, ChannelFailure>) -> Void

  private struct State {
    var letters: [(request: ChannelRequest, then: Completion)] = []
    var mailbox: Mailbox?
    var isClosing = false
    /// The thread takes no more letters: this is the answer to them.
    var end: ChannelFailure.Kind?
  }

  /// The loop's maximum wait: connections check their deadlines once a turn.
  private static let waitMilliseconds = 50
  /// From the last answer to the end of the connections.
  private static let goodbyeMilliseconds: Int64 = 1_000

  private let credentials: Credentials
  private let configuration: ChannelClientConfiguration
  private let state = Mutex(State())

  init(credentials: Credentials, configuration: ChannelClientConfiguration) {
    self.credentials = credentials
    self.configuration = configuration
  }

  func post(_ request: ChannelRequest, _ then: @escaping Completion) {
    let (end, mailbox) = state.withLock { state in
      if state.end == nil { state.letters.append((request, then)) }
      return (state.end, state.mailbox)
    }
    if let end { then(.failure(ChannelFailure(end, request: request, host: nil))) }
    mailbox?.wake()
  }

  package func close() {
    let mailbox = state.withLock { state in
      state.isClosing = true
      return state.mailbox
    }
    mailbox?.wake()
  }

  func run(_ wallClock: WallClock) {
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop(wallClock: wallClock)
    } catch {
      finish(.unreachable(text: "\(error)"))
      return
    }
    state.withLock { $0.mailbox = loop.mailbox }
    let client = ChannelClient(
      loop: loop, credentials: credentials, configuration: configuration, seed: UInt64.random(in: .min ... .max))
    while !takeLetters(client) || client.inFlight > 0 { turn(loop, client) }
    finish(.closed)
    client.close()
    let deadline = loop.now.monotonic.adding(milliseconds: AsyncChannelClientRunner.goodbyeMilliseconds)
    while !client.isClosed, loop.now.monotonic < deadline { turn(loop, client) }
  }

  private func turn(_ loop: EventLoop, _ client: ChannelClient) {
    client.turn()
    loop.flush()
    loop.poll(maximumWaitMilliseconds: AsyncChannelClientRunner.waitMilliseconds)
  }

  /// true: it was asked to close, and nothing more will be sent.
  private func takeLetters(_ client: ChannelClient) -> Bool {
    let (letters, isClosing) = state.withLock { state in
      defer { state.letters = [] }
      return (state.letters, state.isClosing)
    }
    for letter in letters { client.perform(letter.request, then: letter.then) }
    return isClosing && letters.isEmpty
  }

  /// Answers late requests, and those that still come.
  private func finish(_ end: ChannelFailure.Kind) {
    let late = state.withLock { state in
      state.end = end
      defer { state.letters = [] }
      return state.letters
    }
    for letter in late { letter.then(.failure(ChannelFailure(end, request: letter.request, host: nil))) }
  }
}
