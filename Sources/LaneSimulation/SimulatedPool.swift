import PushCore

/// A lane's connections to the simulated APNs, kept by the same values as the real ones: `PoolState`, `ConnectionState` and
/// `RequestTable` decide, and this does what they say.
struct SimulatedPool {
  private struct Link {
    var connection: SimulatedConnection
    var state: ConnectionState
    var hasLeft = false
  }

  struct Answered {
    var answer: PushAnswer
    var pool: Int
    var place: Int
  }

  private let world: SimulatedWorld
  let index: Int
  private var state: PoolState
  private var links: [Link?]
  private let lists: [UInt16]
  private var timing = ConnectionState.Timing()

  /// Where streams are named by their job: its newest request.
  private var newest: [Ticket: Ticket] = [:]

  init(world: SimulatedWorld, index: Int, requests: inout RequestTable) {
    self.world = world
    self.index = index
    var limits = PoolState.Limits()
    limits.connectionsMaximum = world.settings.connections
    state = PoolState(limits: limits)
    timing.watch(requestTimeoutMilliseconds: world.settings.timeoutMilliseconds)
    links = Array(repeating: nil, count: state.placeCount)
    lists = links.map { _ in requests.makeList() }
  }

  var isStalled: Bool { state.isStalled }
  var room: Int { state.room }
  var isEmpty: Bool { links.allSatisfy { $0 == nil } }

  var nextDue: Int64 {
    links.reduce(.max) { due, link in min(due, link?.connection.nextDue ?? .max) }
  }

  /// false: no connection has room now.
  mutating func send(
    _ ticket: Ticket, byteCount: Int, now: Now, requests: inout RequestTable, fate: (Ticket) -> SimulatedConnection.Fate
  ) -> Bool {
    guard let place = state.take(byteCount: byteCount, now: now.monotonic) else { return false }
    let name = requests.insert(
      RequestTable.Request(
        send: ticket, sentAt: now.monotonic, list: lists[place], tokenSerial: 0,
        pauseKey: PauseKey(topicHash: 0, jobClass: .bulk, isBroadcast: false), targetHash: 0))
    let isMistaken = world.settings.mistake == .namesRequestsByJob
    if isMistaken { newest[ticket] = name }
    links[place]?.connection.submit(fate(name), name: isMistaken ? ticket : name)
    if links[place]?.state.sent() == true { leave(place) }
    return true
  }

  // MARK: - Once a turn

  mutating func maintain(now: Now, requests: inout RequestTable, answers: inout [Answered]) {
    for place in links.indices where links[place] != nil {
      links[place]?.connection.step()
      takeEvents(place, now, &requests, &answers)
      watch(place, now, &requests, &answers)
      update(place)
    }
    while true {
      switch state.turn(now: now.monotonic) {
      case .none: return
      case .open(let place):
        links[place] = Link(
          connection: SimulatedConnection(world: world), state: ConnectionState(timing: timing, now: now.monotonic))
      case .drain(let place): links[place]?.state.drain(.unneeded)
      case .ping(let place):
        if links[place]?.state.pingIfSilent(now: now.monotonic) == true { links[place]?.connection.ping() }
      }
    }
  }

  private mutating func takeEvents(
    _ place: Int, _ now: Now, _ requests: inout RequestTable, _ answers: inout [Answered]
  ) {
    while let event = links[place]?.connection.nextEvent() {
      switch event {
      case .opened:
        links[place]?.state.opened(now: now.monotonic)
        state.opened(place: place)
      case .answer(let answer):
        if answer.kind == .response { links[place]?.state.answered(now: now.monotonic) }
        guard let request = requests.remove(newest[answer.ticket] ?? answer.ticket) else { continue }
        if answer.kind == .response {
          _ = state.answered(place: place, sentAt: request.sentAt, now: now.monotonic)
        }
        end(answer, request, place, &answers)
      case .pong:
        links[place]?.state.pongReceived()
        state.pongReceived(place: place)
      case .goAway:
        links[place]?.state.drain(.goAway)
        leave(place)
      case .closed:
        ended(place, now)
        return
      }
    }
    if let received = links[place]?.connection.lastReceived {
      links[place]?.state.received(now: Instant(nanoseconds: received * 1_000_000))
    }
  }

  private mutating func watch(_ place: Int, _ now: Now, _ requests: inout RequestTable, _ answers: inout [Answered]) {
    while links[place] != nil {
      let action = links[place]?.state.turn(
        now: now.monotonic, inFlight: requests.count(of: lists[place]),
        oldestSentAt: requests.oldestSentAt(of: lists[place]))
      switch action ?? .none {
      case .none: return
      case .ping: links[place]?.connection.ping()
      case .timeOut(let sentUntil):
        while let sentAt = requests.oldestSentAt(of: lists[place]), sentAt <= sentUntil,
          let name = requests.oldest(of: lists[place]), let request = requests.remove(name)
        {
          end(PushAnswer(ticket: name, kind: .timedOut), request, place, &answers)
          links[place]?.connection.cancel(newest.isEmpty ? name : request.send)
          if links[place]?.state.timedOut(sentAt: sentAt) == true { leave(place) }
        }
      case .close: links[place]?.connection.end()
      case .abort:
        leave(place)
        links[place]?.connection.end()
        takeEvents(place, now, &requests, &answers)
      }
    }
  }

  private func end(_ answer: PushAnswer, _ request: RequestTable.Request, _ place: Int, _ answers: inout [Answered]) {
    var answer = answer
    answer.ticket = request.send
    answers.append(Answered(answer: answer, pool: index, place: place))
  }

  private mutating func update(_ place: Int) {
    guard let connection = links[place]?.connection else { return }
    state.update(
      place: place, inFlight: connection.count, streamLimit: connection.takesRequests ? world.settings.streams : 0,
      window: 1 << 20)
  }

  private mutating func ended(_ place: Int, _ now: Now) {
    guard var link = links[place] else { return }
    links[place] = nil
    let hasAnswered = link.state.hasAnswered
    let isOurs = !link.state.isOpen
    link.state.closed()
    state.ended(place: place, didFail: !hasAnswered && !isOurs, now: now.monotonic, random: world.random.next())
  }

  private mutating func leave(_ place: Int) {
    guard links[place]?.hasLeft == false else { return }
    links[place]?.hasLeft = true
    state.leaves(place: place)
  }

  /// An answer's advice about the connection that it came over.
  mutating func advise(_ advice: Verdict.ConnectionAdvice, place: Int, now: Now) {
    guard links[place] != nil else { return }
    switch advice {
    case .keep: break
    case .fewerStreams: state.fewerStreams(place: place, now: now.monotonic)
    case .close:
      links[place]?.state.drain(.advised)
      leave(place)
    }
  }

  /// Opens no more connections and lets those that are there finish.
  mutating func close() {
    state.close()
    for place in links.indices where links[place] != nil {
      links[place]?.state.drain(.retired)
      leave(place)
    }
  }

  func recycle(_ requests: inout RequestTable) {
    for list in lists { requests.recycle(list) }
  }
}
