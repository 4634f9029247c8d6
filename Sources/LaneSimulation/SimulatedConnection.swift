import PushCore

/// One connection to the simulated APNs, as HTTP/2 shows it: streams that are answered, refused, reset, or stay silent. Reports about a
/// stream carry its request's name, even if nobody waits for it any more.
struct SimulatedConnection {
  enum Event {
    case opened
    case answer(PushAnswer)
    case pong
    case goAway
    case closed
  }

  /// The result of a request.
  struct Fate {
    /// nil: no answer, ever.
    var answer: (at: Int64, answer: PushAnswer)?
    /// APNs accepted it.
    var isAccepted = false
    var target: Target

    init(target: Target) {
      self.target = target
    }
  }

  private struct Stream {
    var name: Ticket
    var fate: Fate
  }

  private let world: SimulatedWorld
  private var streams: [Stream] = []
  private let opensAt: Int64
  private var isOpen = false
  private var pongAt: Int64?
  /// Streams that are cancelled here are reported separately.
  private var ended: [(at: Int64, answer: PushAnswer)] = []
  private var isCut = false
  private var isGoingAway = false
  private var isGoAwayReported = false
  private(set) var isPinged = false
  /// Nothing is received before then.
  private var silentUntil: Int64 = 0
  private(set) var lastReceived: Int64

  init(world: SimulatedWorld) {
    self.world = world
    opensAt = world.milliseconds + Int64(world.pick(30))
    lastReceived = world.milliseconds
  }

  var takesRequests: Bool { isOpen && !isGoingAway && !isCut && !isPinged }
  var count: Int { streams.count }

  var nextDue: Int64 {
    if isCut || isGoingAway && !isGoAwayReported { return world.milliseconds }
    var due = isOpen ? Int64.max : opensAt
    for stream in streams {
      if let at = stream.fate.answer?.at { due = min(due, at) }
    }
    if let pongAt { due = min(due, pongAt) }
    return ended.reduce(max(due, silentUntil)) { min($0, $1.at) }
  }

  mutating func submit(_ fate: Fate, name: Ticket) {
    streams.append(Stream(name: name, fate: fate))
  }

  /// Resets the stream of a request that was given up. HTTP/2 reports its end a turn later, or when its frame was sent.
  mutating func cancel(_ name: Ticket) {
    guard let index = streams.firstIndex(where: { $0.name == name }) else { return }
    unheard(streams.remove(at: index))
    let delay = world.chance(500) ? 0 : Int64(world.pick(100))
    ended.append((world.milliseconds + delay, PushAnswer(ticket: name, kind: .lost)))
  }

  mutating func ping() {
    isPinged = true
    pongAt = world.milliseconds + Int64(world.pick(50))
  }

  /// The stream's result is lost: if it was accepted, it may be sent again.
  private func unheard(_ stream: Stream) {
    if stream.fate.isAccepted { world.auditor.excuse(stream.fate.target) }
  }

  // MARK: - Faults

  mutating func step() {
    guard isOpen, !isCut else { return }
    if world.chance(world.faults.connectionSilent) { silentUntil = world.milliseconds + Int64(world.pick(20_000)) }
    if world.chance(world.faults.connectionCut) { isCut = true }
    if !isGoingAway, world.chance(world.faults.connectionGoesAway) { goAway() }
  }

  /// GOAWAY: the newest streams are not processed, the others finish.
  private mutating func goAway() {
    isGoingAway = true
    for index in streams.indices.suffix(world.pick(3)) where !streams[index].fate.isAccepted {
      let name = streams[index].name
      streams[index].fate.answer = (world.milliseconds, PushAnswer(ticket: name, kind: .notProcessed))
    }
  }

  /// It ends, from either side: requests in flight may or may not be processed.
  mutating func end() {
    isCut = true
    silentUntil = 0
  }

  // MARK: - Events

  mutating func nextEvent() -> Event? {
    let now = world.milliseconds
    if let index = ended.firstIndex(where: { $0.at <= now || isCut }) { return .answer(ended.remove(at: index).answer) }
    if isCut {
      guard let stream = streams.popLast() else { return .closed }
      unheard(stream)
      return .answer(PushAnswer(ticket: stream.name, kind: .lost))
    }
    guard now >= silentUntil else { return nil }
    if !isOpen, now >= opensAt {
      isOpen = true
      lastReceived = now
      return .opened
    }
    if let pongAt, now >= pongAt {
      self.pongAt = nil
      isPinged = false
      lastReceived = now
      return .pong
    }
    if isGoingAway, !isGoAwayReported {
      isGoAwayReported = true
      lastReceived = now
      return .goAway
    }
    guard let index = streams.firstIndex(where: { $0.fate.answer.map { $0.at <= now } ?? false }) else { return nil }
    let stream = streams.remove(at: index)
    guard let answer = stream.fate.answer?.answer else { return nil }
    lastReceived = now
    if answer.kind != .response { unheard(stream) }
    var reported = answer
    reported.ticket = stream.name
    return .answer(reported)
  }
}
