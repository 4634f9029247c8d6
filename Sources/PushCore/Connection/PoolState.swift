/// A pool's connections to one host with one credential: which connection takes the next request, when to open another one, and when to
/// close one.
///
/// Each connection has a place. `update` sets once a turn what it can take (streams, send window); between two turns the pool counts down
/// itself. Connections open one at a time, an interval apart, and only if needed. Failures lengthen the back-off; after several in a row
/// the breaker opens and allows one attempt at a time, a second or two apart. A useful connection that ends without our wish (a GOAWAY, a
/// cut) is replaced at once, so a host that closes connections every thousand requests does not slow the pool.
///
/// A connection that stops answering while others answer is detected long before its silence is proved. First it gets only requests that no
/// other connection has room for; then it gets none, and a ping. So it loses what was on it, and little more.
package struct PoolState: Sendable {
  package struct Limits: Sendable {
    /// Connections that are open or opening. As many again may be draining.
    package var connectionsMaximum = 8
    /// Between two openings.
    package var openIntervalMilliseconds: Int64 = 1_000
    /// A connection that took this many requests is replaced without waiting for the interval.
    package var replacedAtOnceRequests = 100
    /// Back-off after the first failure; doubled after each.
    package var backoffFirstMilliseconds: Int64 = 500
    /// The longest back-off: once the host is back, waiting requests go out within this time.
    package var backoffLongestMilliseconds: Int64 = 2_000
    /// This many failures in a row open the breaker.
    package var breakerFailures = 5
    /// How long the load is watched before a connection is let go.
    package var shrinkIntervalMilliseconds: Int64 = 60_000
    /// If the pool has had no request for this long, its last connection is not replaced.
    package var keepWarmMilliseconds: Int64 = 600_000
    /// How long answers are watched before a connection's own stream limit is halved or doubled.
    package var paceMilliseconds: Int64 = 250
    /// If at least one in this many answers asks for fewer streams, the limit is halved.
    package var fewerStreamsShare = 8
    /// The others must go on answering for at least this long before a connection without an answer counts as late.
    package var lateMilliseconds: Int64 = 50
    /// How long it must be late before it counts as silent.
    package var silentMilliseconds: Int64 = 250

    package init() {}
  }

  package enum Action: Equatable, Sendable {
    case none
    /// Open a connection in this place.
    case open(place: Int)
    /// Let the connection in this place finish its requests, then close it.
    case drain(place: Int)
    /// Ping the connection in this place.
    case ping(place: Int)
  }

  package enum Breaker: Equatable, Sendable {
    /// Openings succeed, or rarely fail.
    case closed
    /// Several openings failed in a row; no attempt before the back-off ends.
    case open
    /// The back-off ended: one attempt is in progress.
    case halfOpen
  }

  /// Why a request finds no room.
  package enum Stall: String, CaseIterable, Sendable {
    /// No connection takes requests: none is open yet, or none can be opened.
    case noConnection = "no_connection"
    /// The peer allows no more concurrent streams, or asked for fewer.
    case noStream = "no_stream"
    /// The peer accepts no more bytes: its flow-control window is exhausted.
    case noWindow = "no_window"
    /// No connection answers requests or pings.
    case noAnswer = "no_answer"
  }

  private enum Occupant: Equatable, Sendable {
    /// No connection. Becomes `opening`.
    case vacant
    /// Being opened. Becomes `ready`, `leaving` or `vacant`.
    case opening
    /// Takes requests. Becomes `leaving` or `vacant`.
    case ready
    /// Finishes its requests. Becomes `vacant`.
    case leaving
  }

  /// Whether a connection answers, compared with the others. Only requests sent since its last answer count.
  private enum Hearing: Equatable, Sendable {
    /// It answers, or has nothing in flight. Becomes `late`.
    case answering
    /// It does not answer while others do: it gets only what they have no room for. Becomes `answering`, or `silent`.
    case late(since: Instant)
    /// It has been late for long, and was pinged: it gets nothing. Becomes `answering`, or `proving` with a pong.
    case silent
    /// Its pong shows that it is alive: it gets one request, before all others. Becomes `silent` with that, or `answering`.
    case proving
  }

  private struct Place: Sendable {
    var occupant = Occupant.vacant
    var hearing = Hearing.answering
    /// When the oldest request after its last answer was sent.
    var waitingSince: Instant?
    var inFlight = 0
    /// Streams that the peer allows at once.
    var streamLimit = 0
    /// Bytes of request bodies that the peer accepts now.
    var window = 0
    /// Our own limit of streams, after `fewerStreams`.
    var ownLimit = Int.max
    /// Since when answers are counted; nil: no answer asked for fewer streams, so nothing is counted.
    var pacedSince: Instant?
    var answers = 0
    var refusals = 0
    /// Requests that it took.
    var taken = 0
    /// The maximum in flight since the last look.
    var peak = 0

    var free: Int { max(0, min(streamLimit, ownLimit) - inFlight) }
    /// How many requests of typical size it takes. With nothing in flight no answer will widen the window, so the request is sent and flow
    /// control waits.
    var room: Int { inFlight > 0 ? min(free, 1 + max(0, window) >> PoolState.typicalBodyShift) : free }
  }

  /// Log2 of a typical body's size; this much window counts as one stream when connections are compared.
  private static let typicalBodyShift = 9

  private let limits: Limits
  /// Places that were ever used: most pools need one.
  private var places: [Place] = []
  private var openingCount = 0
  /// Useful connections that ended without our wish and are not replaced yet.
  private var owed = 0
  package private(set) var readyCount = 0
  private var lastOpenedAt: Instant?
  private var notBefore: Instant?
  private var backoff: Backoff
  /// Since the last turn a request found no room, or almost none was left.
  private var isShort = false
  /// The last request that found no room.
  private var lastRefusal: (at: Instant, byteCount: Int)?
  private var lastRequestAt: Instant?
  private var watchedSince: Instant?
  private var peakInFlight = 0
  private var wasShort = false
  private var isClosing = false
  private var answerTime = AnswerTime()
  /// When any connection answered last.
  private var lastAnsweredAt: Instant?
  /// `lastAnsweredAt` at the last comparison of connections.
  private var comparedAt: Instant?
  /// Ready connections that are silent.
  package private(set) var silentCount = 0

  package init(limits: Limits = Limits()) {
    precondition(limits.connectionsMaximum >= 1, "a pool has at least one connection")
    self.limits = limits
    backoff = Backoff(
      initialMilliseconds: limits.backoffFirstMilliseconds, maximumMilliseconds: limits.backoffLongestMilliseconds)
  }

  /// How many places there may be, numbered from 0.
  package var placeCount: Int { limits.connectionsMaximum * 2 }
  package var isOpening: Bool { openingCount > 0 }
  package var leavingCount: Int { places.count { $0.occupant == .leaving } }
  package var inFlight: Int { places.reduce(0) { $0 + $1.inFlight } }

  /// Openings that failed in a row.
  package var failures: Int { Int(backoff.failures) }

  package var breaker: Breaker {
    guard failures >= limits.breakerFailures else { return .closed }
    return openingCount > 0 ? .halfOpen : .open
  }

  /// Sets what the connection in a place can take now. Call once a turn, before requests are sent.
  package mutating func update(place: Int, inFlight: Int, streamLimit: Int, window: Int) {
    places[place].inFlight = inFlight
    places[place].streamLimit = streamLimit
    places[place].window = window
    if inFlight > places[place].peak { places[place].peak = inFlight }
    if inFlight == 0 {
      // Nothing is in flight, so nothing waits for an answer.
      places[place].waitingSince = nil
      if places[place].hearing != .answering { hear(place, as: .answering) }
    }
  }

  /// About how many requests find room; their sizes are not known here.
  package var room: Int {
    places.reduce(0) { $1.occupant == .ready && $1.hearing != .silent ? $0 + $1.room : $0 }
  }

  /// The place whose connection takes a request with a body of `byteCount`, counted as sent; nil if none has room.
  /// - Parameter transactionalInFlight: for bulk beside them: an eighth of the room is theirs. nil: it may take the last room.
  package mutating func take(byteCount: Int, transactionalInFlight: Int? = nil, now: Instant) -> Int? {
    lastRequestAt = now
    var (best, bestRoom) = (-1, -1)
    var (allRoom, allInFlight) = (0, 0)
    for index in places.indices where places[index].occupant == .ready {
      allInFlight += places[index].inFlight
      guard places[index].free > 0, places[index].inFlight == 0 || places[index].window >= byteCount else { continue }
      var room = places[index].room
      allRoom += room
      switch places[index].hearing {
      case .answering: break
      case .late: room = 0
      case .silent: continue
      case .proving: room = .max
      }
      if room > bestRoom {
        bestRoom = room
        best = index
      }
    }
    if let transactionalInFlight, allRoom <= ShareState.spare(of: allRoom + allInFlight) - transactionalInFlight {
      best = -1
    }
    guard best >= 0 else {
      // Until the first connection is open, it is unknown whether one is enough.
      if readyCount > 0 { isShort = true }
      lastRefusal = (now, byteCount)
      return nil
    }
    // Only a late connection has room: almost none is left.
    if bestRoom == 0 { isShort = true }
    if places[best].hearing == .proving { hear(best, as: .silent) }
    if places[best].waitingSince == nil { places[best].waitingSince = now }
    places[best].inFlight += 1
    places[best].window -= byteCount
    places[best].taken += 1
    return best
  }

  /// Why the requests of the last second find no room; nil if they find room, or none came.
  package func stall(now: Instant) -> Stall? {
    guard let refusal = lastRefusal, now.milliseconds(since: refusal.at) < 1_000 else { return nil }
    var stall = Stall.noConnection
    for place in places where place.occupant == .ready {
      if place.hearing == .silent {
        if stall == .noConnection { stall = .noAnswer }
        continue
      }
      if place.free > 0 {
        guard place.inFlight > 0, place.window < refusal.byteCount else { return nil }
        return .noWindow
      }
      stall = .noStream
    }
    return stall
  }

  /// A request that `take` counted was not sent.
  package mutating func giveBack(place: Int, byteCount: Int) {
    places[place].inFlight -= 1
    places[place].window += byteCount
  }

  /// The connection takes requests.
  package mutating func opened(place: Int) {
    switch places[place].occupant {
    case .opening:
      places[place].occupant = .ready
      openingCount -= 1
      readyCount += 1
    case .leaving:
      break
    case .vacant, .ready:
      preconditionFailure("a connection opens once")
    }
  }

  /// The connection answered a request sent at `sentAt`: the host works. true: that ends a row of failures.
  package mutating func answered(place: Int, sentAt: Instant, now: Instant) -> Bool {
    places[place].answers += 1
    places[place].waitingSince = nil
    if places[place].hearing != .answering { hear(place, as: .answering) }
    lastAnsweredAt = now
    answerTime.heard(nanoseconds: now.nanoseconds &- sentAt.nanoseconds)
    guard failures > 0 else { return false }
    backoff.succeeded()
    notBefore = nil
    return true
  }

  /// The connection answered a ping: it is alive.
  package mutating func pongReceived(place: Int) {
    if places[place].hearing == .silent { hear(place, as: .proving) }
  }

  private mutating func hear(_ place: Int, as hearing: Hearing) {
    if places[place].occupant == .ready {
      if places[place].hearing == .silent { silentCount -= 1 }
      if hearing == .silent { silentCount += 1 }
    }
    places[place].hearing = hearing
  }

  /// The connection takes no more requests (GOAWAY, an answer's advice, or `drain`).
  package mutating func leaves(place: Int) {
    switch places[place].occupant {
    case .opening:
      openingCount -= 1
      places[place].occupant = .leaving
    case .ready:
      hear(place, as: .answering)
      readyCount -= 1
      places[place].occupant = .leaving
      owe(place)
    case .leaving:
      break
    case .vacant:
      preconditionFailure("only a connection leaves")
    }
  }

  private mutating func owe(_ place: Int) {
    if places[place].taken >= limits.replacedAtOnceRequests { owed = min(owed + 1, limits.connectionsMaximum) }
  }

  /// The connection ended. `didFail`: it did not open, or never answered a request; the next opening waits. `random`: any random bits, for
  /// the back-off's jitter.
  package mutating func ended(place: Int, didFail: Bool, now: Instant, random: UInt64) {
    switch places[place].occupant {
    case .opening: openingCount -= 1
    case .ready:
      hear(place, as: .answering)
      readyCount -= 1
      owe(place)
    case .leaving: break
    case .vacant: preconditionFailure("a connection ends once")
    }
    places[place] = Place()
    guard didFail else { return }
    notBefore = now.adding(milliseconds: backoff.failed(random: random))
  }

  /// Milliseconds until the back-off allows an opening; 0 for none.
  package func backoffMilliseconds(now: Instant) -> Int64 {
    guard let notBefore else { return 0 }
    return max(0, notBefore.milliseconds(since: now))
  }

  /// An answer on this connection says that APNs is overloaded. If many do, the connection's streams are halved, again and again; when they
  /// stop, the limit doubles.
  package mutating func fewerStreams(place: Int, now: Instant) {
    guard places[place].occupant == .ready else { return }
    if places[place].pacedSince == nil {
      places[place].pacedSince = now
      places[place].answers = 1
      places[place].refusals = 0
      places[place].peak = places[place].inFlight
    }
    places[place].refusals += 1
  }

  /// Requests will go on waiting: no connection can be opened, or APNs asked each of them for fewer streams.
  package var isStalled: Bool {
    if readyCount == 0 { return failures > 0 }
    for place in places where place.occupant == .ready && place.ownLimit == .max { return false }
    return true
  }

  /// Open no more connections; ready ones are drained.
  package mutating func close() {
    isClosing = true
  }

  /// Call once a turn, after `update`. Call again after each action until it returns `none`.
  package mutating func turn(now: Instant) -> Action {
    pace(now)
    if isClosing {
      for index in places.indices where places[index].occupant == .ready || places[index].occupant == .opening {
        leaves(place: index)
        return .drain(place: index)
      }
      return .none
    }
    if let place = placeToPing() { return .ping(place: place) }
    peakInFlight = max(peakInFlight, inFlight)
    if let place = placeToOpen(now) {
      if place == places.count { places.append(Place()) }
      places[place].occupant = .opening
      openingCount += 1
      // A replacement does not delay growth.
      if owed > 0 { owed -= 1 } else { lastOpenedAt = now }
      isShort = false
      return .open(place: place)
    }
    wasShort = wasShort || isShort
    isShort = false
    guard let place = placeBeyondMaximum ?? placeToLetGo(now) else { return .none }
    hear(place, as: .answering)
    readyCount -= 1
    places[place].occupant = .leaving
    return .drain(place: place)
  }

  /// Compares which connections answer. Returns one that fell silent and was not pinged yet.
  private mutating func placeToPing() -> Int? {
    // No answer since the last comparison, so nothing has changed.
    guard readyCount > 1, let last = lastAnsweredAt, last != comparedAt else { return nil }
    let late = max(limits.lateMilliseconds * 1_000_000, answerTime.longestUsualNanoseconds)
    let silent = max(limits.silentMilliseconds * 1_000_000, 2 * answerTime.longestUsualNanoseconds)
    for index in places.indices {
      guard places[index].occupant == .ready, let waitingSince = places[index].waitingSince else { continue }
      switch places[index].hearing {
      case .answering:
        // An answer of its own would have reset `waitingSince`, so this answer came on another connection.
        if last.nanoseconds - waitingSince.nanoseconds >= late { hear(index, as: .late(since: last)) }
      case .late(let since):
        guard last.nanoseconds - since.nanoseconds >= silent else { continue }
        hear(index, as: .silent)
        return index
      case .silent, .proving:
        break
      }
    }
    comparedAt = last
    return nil
  }

  /// Silent connections get replacements beside them. If one recovers, there is one too many.
  private var placeBeyondMaximum: Int? {
    guard readyCount - silentCount > limits.connectionsMaximum else { return nil }
    var candidate: Int?
    for index in places.indices where places[index].occupant == .ready && places[index].hearing != .silent {
      if let other = candidate, places[other].inFlight <= places[index].inFlight { continue }
      candidate = index
    }
    return candidate
  }

  /// A connection has fewer streams than its peer allows, because APNs asked for fewer.
  private var isPaced: Bool {
    places.contains { $0.occupant == .ready && $0.ownLimit != .max }
  }

  private func placeToOpen(_ now: Instant) -> Int? {
    let takingCount = readyCount - silentCount
    guard openingCount == 0, takingCount < limits.connectionsMaximum, let lastRequestAt else { return nil }
    if let notBefore, now < notBefore { return nil }
    if takingCount == 0 {
      // There is no connection: open one as long as requests may come.
      guard now.milliseconds(since: lastRequestAt) < limits.keepWarmMilliseconds else { return nil }
    } else {
      // If APNs asks for fewer streams, the shortage is self-imposed.
      guard owed > 0 || isShort && !isPaced else { return nil }
    }
    if owed == 0, let last = lastOpenedAt, now.milliseconds(since: last) < limits.openIntervalMilliseconds {
      return nil
    }
    return places.firstIndex { $0.occupant == .vacant } ?? (places.count < placeCount ? places.count : nil)
  }

  /// The least busy connection, if a whole interval has shown that the others would do with half of their streams.
  private mutating func placeToLetGo(_ now: Instant) -> Int? {
    guard let since = watchedSince else {
      watchedSince = now
      return nil
    }
    guard now.milliseconds(since: since) >= limits.shrinkIntervalMilliseconds else { return nil }
    defer {
      watchedSince = now
      peakInFlight = inFlight
      wasShort = false
    }
    guard readyCount > 1, openingCount == 0, !wasShort else { return nil }
    var candidate = -1
    var total = 0
    for index in places.indices where places[index].occupant == .ready {
      total += places[index].streamLimit
      if candidate < 0 || places[index].inFlight < places[candidate].inFlight { candidate = index }
    }
    guard peakInFlight * 2 <= total - places[candidate].streamLimit else { return nil }
    return candidate
  }

  private mutating func pace(_ now: Instant) {
    for index in places.indices {
      guard let since = places[index].pacedSince, now.milliseconds(since: since) >= limits.paceMilliseconds else {
        continue
      }
      let own = places[index].ownLimit
      if places[index].refusals * limits.fewerStreamsShare >= max(1, places[index].answers),
        places[index].refusals > 0
      {
        places[index].ownLimit = max(1, min(own, places[index].peak) / 2)
        places[index].pacedSince = now
      } else if own < places[index].streamLimit / 2 {
        places[index].ownLimit = own * 2
        places[index].pacedSince = now
      } else {
        places[index].ownLimit = .max
        places[index].pacedSince = nil
      }
      places[index].answers = 0
      places[index].refusals = 0
      places[index].peak = places[index].inFlight
    }
  }
}
