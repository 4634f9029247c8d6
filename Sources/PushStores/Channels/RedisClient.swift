import PushCore
package import PushIO

/// Commands to Redis with an answer each, on an event loop: for what is asked seldom and must not block.
///
/// Commands wait while Redis is being connected to, and follow the slots of a cluster. Each one is answered once, at the
/// latest after the timeout. Not Sendable: it belongs to the thread of its loop. Errors are words: what failed, where.
package final class RedisClient {
  package struct Failure: Error, Hashable, Sendable {
    package let text: String
  }

  package typealias Answer = (Result<RedisReply, Failure>) -> Void

  private struct Call {
    let key: String
    let arguments: [String]
    let last: [UInt8]?
    let deadline: Instant
    var redirects = 0
    let then: Answer
  }

  private let loop: EventLoop
  private let router: RedisRouter
  private let timeoutMilliseconds: Int64
  /// Not sent yet: the node is not connected.
  private var waiting: [Call] = []
  /// By node and tag.
  private var sent: [[UInt64: Call]] = []
  private var lastFailure: String?

  /// A command follows a slot that moves so often.
  private static let redirectsMaximum = 8
  /// A list of all channels of an app in one reply.
  private static let replyBytesMaximum = 16 << 20
  private static let replyValuesMaximum = 1 << 17

  /// `seed`: of the pauses between connects, different in each client.
  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, timeoutMilliseconds: Int64 = 5_000,
    seed: UInt64
  ) {
    self.loop = loop
    self.timeoutMilliseconds = timeoutMilliseconds
    var limits = RedisReader.Limits()
    limits.bytesMaximum = RedisClient.replyBytesMaximum
    limits.valuesMaximum = RedisClient.replyValuesMaximum
    router = RedisRouter(
      loop: loop, configuration: configuration, tls: tls, seed: seed, limits: limits)
    router.connect()
  }

  package var isConnected: Bool { router.isWhole }

  /// Asks. `key` says which node of a cluster is asked; `last` is one more argument, of any bytes.
  package func call(_ arguments: [String], last: [UInt8]? = nil, key: String, then: @escaping Answer) {
    let call = Call(
      key: key, arguments: arguments, last: last,
      deadline: loop.now.monotonic.adding(milliseconds: timeoutMilliseconds), then: then)
    if !send(call) { waiting.append(call) }
  }

  /// What came since the last turn; answers are reported from here.
  package func turn() {
    while let (node, event) = router.nextEvent() {
      switch event {
      case .ready:
        lastFailure = nil
      case .disconnected(let error):
        lastFailure = "\(error)"
      case .lost(let tag):
        take(node, tag)?.then(.failure(Failure(text: lastFailure ?? "the connection was lost")))
      case .reply(let tag, _):
        guard let call = take(node, tag) else { break }
        replied(router.connections[node].copyReply(), call, node)
      }
    }
    if !waiting.isEmpty {
      let calls = waiting
      waiting = []
      for call in calls where !send(call) { waiting.append(call) }
    }
    dropLate()
  }

  /// Ends for good; what waits is answered as failed.
  package func close() {
    router.close()
    fail { _ in true }
  }

  private func send(_ call: Call) -> Bool {
    send(call, to: router.node(ofSlot: RedisSlot.of(call.key.utf8.span)))
  }

  private func send(_ call: Call, to node: Int) -> Bool {
    guard node < router.connections.count,
      let tag = router.connections[node].request(call.arguments, last: call.last)
    else { return false }
    while sent.count <= node { sent.append([:]) }
    sent[node][tag] = call
    return true
  }

  private func take(_ node: Int, _ tag: UInt64) -> Call? {
    node < sent.count ? sent[node].removeValue(forKey: tag) : nil
  }

  private func replied(_ reply: RedisReply, _ call: Call, _ node: Int) {
    guard case .error(let error) = reply else { return call.then(.success(reply)) }
    var again = call
    again.redirects += 1
    if again.redirects <= RedisClient.redirectsMaximum, let redirect = router.redirect(error, from: node) {
      switch redirect {
      case .moved(let target):
        if send(again, to: target) { return }
      case .ask(let target):
        if target < router.connections.count, router.connections[target].request(["ASKING"]) != nil,
          send(again, to: target)
        {
          return
        }
      case .later:
        break
      }
      waiting.append(again)
      return
    }
    call.then(.failure(Failure(text: "\(error)")))
  }

  private func dropLate() {
    let now = loop.now.monotonic
    fail { $0.deadline <= now }
  }

  private func fail(_ isOver: (Call) -> Bool) {
    var over: [Call] = []
    if waiting.contains(where: isOver) {
      over = waiting.filter(isOver)
      waiting.removeAll(where: isOver)
    }
    for node in sent.indices {
      // As they were sent: who hears of it asks for the next thing in the same order.
      for (tag, call) in sent[node].filter({ isOver($0.value) }).sorted(by: { $0.key < $1.key }) {
        over.append(call)
        sent[node][tag] = nil
      }
    }
    let text = lastFailure ?? "no answer within \(timeoutMilliseconds) ms"
    for call in over { call.then(.failure(Failure(text: text))) }
  }
}
