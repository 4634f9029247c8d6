import PushCore

/// A lane's connections to the simulated APNs. `PoolState`, `ConnectionState` and `RequestTable`, the real ones, decide; this type carries
/// that out.
struct SimulatedPool {
  private struct Member {
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
  private var members: [Member?]
  private let lists: [UInt32]
  private var timing = ConnectionState.Timing()

  /// If streams are named by their job: the job's newest request.
  private var newest: [Ticket: Ticket] = [:]

  init(world: SimulatedWorld, index: Int, requests: inout RequestTable) {
    self.world = world
    self.index = index
    var limits = PoolState.Limits()
    limits.connectionsMaximum = world.settings.connections
    state = PoolState(limits: limits)
    timing.watch(requestTimeoutMilliseconds: world.settings.timeoutMilliseconds)
    members = Array(repeating: nil, count: state.placeCount)
    lists = members.map { _ in requests.makeList() }
  }

  var isStalled: Bool { state.isStalled }
  var room: Int { state.room }
  var isEmpty: Bool { members.allSatisfy { $0 == nil } }

  var nextDue: Int64 {
    members.reduce(.max) { due, member in min(due, member?.connection.nextDue ?? .max) }
  }

  /// false: no connection has room now.
  mutating func send(
    _ ticket: Ticket, byteCount: Int, transactionalInFlight: Int?, now: Now, requests: inout RequestTable,
    fate: (Ticket) -> SimulatedConnection.Fate
  ) -> Bool {
    guard
      let place = state.take(
        byteCount: byteCount, transactionalInFlight: transactionalInFlight, now: now.monotonic)
    else { return false }
    let name = requests.insert(
      RequestTable.Request(
        send: ticket, sentAt: now.monotonic, list: lists[place], tokenSerial: 0,
        pauseKey: PauseKey(topicHash: 0, jobClass: .bulk, isBroadcast: false), targetHash: 0))
    let isMistaken = world.settings.mistake == .namesRequestsByJob
    if isMistaken { newest[ticket] = name }
    members[place]?.connection.submit(fate(name), name: isMistaken ? ticket : name)
    if members[place]?.state.sent() == true { leave(place) }
    return true
  }

  // MARK: - Once a turn

  mutating func maintain(now: Now, requests: inout RequestTable, answers: inout [Answered]) {
    for place in members.indices where members[place] != nil {
      members[place]?.connection.step()
      takeEvents(place, now, &requests, &answers)
      watch(place, now, &requests, &answers)
      update(place)
    }
    while true {
      switch state.turn(now: now.monotonic) {
      case .none: return
      case .open(let place):
        members[place] = Member(
          connection: SimulatedConnection(world: world), state: ConnectionState(timing: timing, now: now.monotonic))
      case .drain(let place): members[place]?.state.drain(.unneeded)
      case .ping(let place):
        if members[place]?.state.pingIfSilent(now: now.monotonic) == true { members[place]?.connection.ping() }
      }
    }
  }

  private mutating func takeEvents(
    _ place: Int, _ now: Now, _ requests: inout RequestTable, _ answers: inout [Answered]
  ) {
    while let event = members[place]?.connection.nextEvent() {
      switch event {
      case .opened:
        members[place]?.state.opened(now: now.monotonic)
        state.opened(place: place)
      case .answer(let answer):
        if answer.kind == .response { members[place]?.state.answered(now: now.monotonic) }
        guard let request = requests.remove(newest[answer.ticket] ?? answer.ticket) else { continue }
        if answer.kind == .response {
          _ = state.answered(place: place, sentAt: request.sentAt, now: now.monotonic)
        }
        end(answer, request, place, &answers)
      case .pong:
        members[place]?.state.pongReceived()
        state.pongReceived(place: place)
      case .goAway:
        members[place]?.state.drain(.goAway)
        leave(place)
      case .closed:
        ended(place, now)
        return
      }
    }
    if let received = members[place]?.connection.lastReceived {
      members[place]?.state.received(now: Instant(nanoseconds: received * 1_000_000))
    }
  }

  private mutating func watch(_ place: Int, _ now: Now, _ requests: inout RequestTable, _ answers: inout [Answered]) {
    while members[place] != nil {
      let action = members[place]?.state.turn(
        now: now.monotonic, inFlight: requests.count(of: lists[place]),
        oldestSentAt: requests.oldestSentAt(of: lists[place]))
      switch action ?? .none {
      case .none: return
      case .ping: members[place]?.connection.ping()
      case .timeOut(let sentUntil):
        while let sentAt = requests.oldestSentAt(of: lists[place]), sentAt <= sentUntil,
          let name = requests.oldest(of: lists[place]), let request = requests.remove(name)
        {
          end(PushAnswer(ticket: name, kind: .timedOut), request, place, &answers)
          members[place]?.connection.cancel(newest.isEmpty ? name : request.send)
          if members[place]?.state.timedOut(sentAt: sentAt) == true { leave(place) }
        }
      case .close: members[place]?.connection.end()
      case .abort:
        leave(place)
        members[place]?.connection.end()
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
    guard let connection = members[place]?.connection else { return }
    state.update(
      place: place, inFlight: connection.count, streamLimit: connection.takesRequests ? world.settings.streams : 0,
      window: 1 << 20)
  }

  private mutating func ended(_ place: Int, _ now: Now) {
    guard var member = members[place] else { return }
    members[place] = nil
    let hasAnswered = member.state.hasAnswered
    let isOurs = !member.state.isOpen
    member.state.closed()
    state.ended(place: place, didFail: !hasAnswered && !isOurs, now: now.monotonic, random: world.random.next())
  }

  private mutating func leave(_ place: Int) {
    guard members[place]?.hasLeft == false else { return }
    members[place]?.hasLeft = true
    state.leaves(place: place)
  }

  /// An answer's advice about its connection.
  mutating func advise(_ advice: Verdict.ConnectionAdvice, place: Int, now: Now) {
    guard members[place] != nil else { return }
    switch advice {
    case .keep: break
    case .fewerStreams: state.fewerStreams(place: place, now: now.monotonic)
    case .close:
      members[place]?.state.drain(.advised)
      leave(place)
    }
  }

  /// Opens no more connections and lets existing ones finish.
  mutating func close() {
    state.close()
    for place in members.indices where members[place] != nil {
      members[place]?.state.drain(.retired)
      leave(place)
    }
  }

  func recycle(_ requests: inout RequestTable) {
    for list in lists { requests.recycle(list) }
  }
}
