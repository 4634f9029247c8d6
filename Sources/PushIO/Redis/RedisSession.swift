import PushCore

/// Runs commands and waits for their answers, for command-line tools: blocks its thread, with a time limit.
package final class RedisSession {
  /// A command, and the key that determines its node in a cluster.
  package struct Command: Sendable {
    package let key: String
    package let arguments: [String]

    package init(_ arguments: [String], key: String) {
      self.key = key
      self.arguments = arguments
    }
  }

  private let loop: EventLoop
  private let router: RedisRouter
  private let silenceMilliseconds: Int64

  /// Maximum of commands in flight.
  private static let window = 512
  /// Keys tried to find one for each node: a node with a hundredth of the slots has one among these.
  private static let keysMaximum = 4_096
  /// How often a command is redirected.
  private static let redirectsMaximum = 8
  /// The wait after the first answer that a slot cannot be served now; each further one waits twice as long.
  private static let laterMilliseconds: Int64 = 20

  /// Connects and greets; throws why it could not.
  package init(configuration: RedisConfiguration, tls: TLSContext?) throws {
    loop = try EventLoop()
    // A silent connection is closed earlier, with an error that names it.
    silenceMilliseconds = 2 * configuration.silenceTimeoutMilliseconds + configuration.connectTimeoutMilliseconds
    router = RedisRouter(loop: loop, configuration: configuration, tls: tls, seed: 1)
    router.connect()
    let deadline = loop.now.monotonic.adding(milliseconds: configuration.connectTimeoutMilliseconds)
    var failure: RedisError?
    while !router.isWhole {
      while let (_, event) = router.nextEvent() {
        if case .disconnected(let error) = event { failure = error }
      }
      // With several nodes, another one may answer.
      if let failure, configuration.addresses.count == 1 { throw failure }
      guard loop.now.monotonic < deadline else {
        throw failure
          ?? RedisError.silent(
            server: configuration.fullDescription, milliseconds: configuration.connectTimeoutMilliseconds)
      }
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 20)
    }
  }

  /// A key with this prefix on each node that owns slots.
  package func keyOfEachNode(prefix: String) -> [(node: String, key: String)] {
    var keys: [Int: String] = [:]
    let nodes = router.connections.indices.filter(router.isOwner)
    var number = 0
    while keys.count < nodes.count, number < RedisSession.keysMaximum {
      let key = "\(prefix){\(number)}"
      let node = router.node(ofSlot: RedisSlot.of(key.utf8.span))
      if keys[node] == nil { keys[node] = key }
      number += 1
    }
    return nodes.compactMap { node in
      keys[node].map { (router.connections[node].configuration.serverDescription, $0) }
    }
  }

  /// The replies to these commands, in order; an error reply is a reply. Throws if a connection was lost, or no reply came for too long.
  package func run(_ commands: [Command]) throws(RedisError) -> [RedisReply] {
    var replies: [RedisReply?] = Array(repeating: nil, count: commands.count)
    /// Commands in flight: by node and tag, the command's index and number of redirects.
    var waiting: [[UInt64: (place: Int, redirects: Int)]] = []
    var next = 0
    var done = 0
    // The loop's time is that of its last turn, which may be long ago.
    loop.poll(maximumWaitMilliseconds: 0)
    var answeredAt = loop.now.monotonic
    while done < commands.count {
      guard loop.now.monotonic < answeredAt.adding(milliseconds: silenceMilliseconds) else {
        throw .silent(server: router.configuration.fullDescription, milliseconds: silenceMilliseconds)
      }
      while waiting.count < router.connections.count { waiting.append([:]) }
      while next < commands.count, next - done < RedisSession.window {
        let node = router.node(ofSlot: RedisSlot.of(commands[next].key.utf8.span))
        guard let tag = router.connections[node].request(commands[next].arguments) else { break }
        waiting[node][tag] = (next, 0)
        next += 1
      }
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 20)
      while let (node, event) = router.nextEvent() {
        switch event {
        case .reply(let tag, _):
          guard let (place, redirects) = waiting[node].removeValue(forKey: tag) else { break }
          answeredAt = loop.now.monotonic
          let reply = router.connections[node].copyReply()
          if let (target, again) = redirected(reply, from: node, commands[place], redirects) {
            while waiting.count <= target { waiting.append([:]) }
            waiting[target][again] = (place, redirects + 1)
          } else {
            replies[place] = reply
            done += 1
          }
        case .disconnected(let error):
          if router.isOwner(node) { throw error }
        case .ready, .lost:
          break
        }
      }
    }
    return replies.compactMap(\.self)
  }

  /// Sends a command again to its slot's new node.
  private func redirected(
    _ reply: RedisReply, from node: Int, _ command: Command, _ redirects: Int
  ) -> (node: Int, tag: UInt64)? {
    guard case .error(let error) = reply, redirects < RedisSession.redirectsMaximum,
      let redirect = router.redirect(error, from: node)
    else { return nil }
    let target: Int
    switch redirect {
    case .moved(let node):
      target = node
    case .ask(let node):
      target = node
      guard router.connections[node].request(["ASKING"]) != nil else { return nil }
    case .later:
      target = node
      let end = loop.now.monotonic.adding(milliseconds: RedisSession.laterMilliseconds << redirects)
      while loop.now.monotonic < end { loop.poll(maximumWaitMilliseconds: 20) }
    }
    return router.connections[target].request(command.arguments).map { (target, $0) }
  }

  /// Closes the connections.
  package func close() {
    router.close()
    loop.flush()
  }
}
