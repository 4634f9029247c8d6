/// A pool's connections to one host with one credential: which one takes the next request, when another one is opened,
/// and when one is let go.
///
/// Each connection has a place. What it can take (streams, send window) is updated once a turn with `update`; between two
/// turns the pool counts down itself. Connections are opened one by one, seconds apart, and only for need: after
/// failures later and later, and after several in a row the breaker is open: one attempt at a time, a second or two apart.
/// What was of use and goes without our wish (a GOAWAY, a cut) is replaced at once: a host that sends us away every
/// thousand requests is followed.
///
/// A connection that answers nothing while the others answer is found out long before its silence is proved: first it gets
/// only what the others have no room for, then nothing, and a ping. So what it swallows is what was on it, and little more.
package struct PoolState: Sendable {
  package struct Limits: Sendable {
    /// Connections that take requests or are being opened. Draining ones come on top, at most as many again.
    package var connectionsMaximum = 8
    /// Between two openings.
    package var openIntervalMilliseconds: Int64 = 1_000
    /// A connection that took so many requests is replaced without waiting for the interval.
    package var replacedAtOnceRequests = 100
    /// After the first failure; doubled after each.
    package var backoffFirstMilliseconds: Int64 = 500
    /// No longer: when the host is back, what waits is on its way within this time.
    package var backoffLongestMilliseconds: Int64 = 2_000
    /// Failures in a row that open the breaker.
    package var breakerFailures = 5
    /// How long the load is watched before a connection is let go.
    package var shrinkIntervalMilliseconds: Int64 = 60_000
    /// A pool without a request for this long does not replace its last connection.
    package var keepWarmMilliseconds: Int64 = 600_000
    /// How long answers are watched before a connection's own limit is halved or doubled.
    package var paceMilliseconds: Int64 = 250
    /// One answer in so many that asks for fewer streams halves them.
    package var fewerStreamsShare = 8
    /// The least that the others go on answering before a connection without an answer is late, however quick they are.
    package var lateMilliseconds: Int64 = 50
    /// How long it is late, at least, before it is silent.
    package var silentMilliseconds: Int64 = 250

    package init() {}
  }

  package enum Action: Equatable, Sendable {
    case none
    /// Open a connection at this place.
    case open(place: Int)
    /// Let the connection at this place finish, and close it.
    case drain(place: Int)
    /// Ask the connection at this place for a sign of life.
    case ping(place: Int)
  }

  package enum Breaker: Equatable, Sendable {
    /// Openings succeed, or did not fail often.
    case closed
    /// Several openings failed in a row; nothing is tried before the back-off ends.
    case open
    /// The back-off ended: one attempt is under way.
    case halfOpen
  }

  /// Why a request finds no room.
  package enum Stall: String, CaseIterable, Sendable {
    /// No connection takes requests: none is open yet, or none can be opened.
    case noConnection = "no_connection"
    /// The peer allows no more streams at once, or asked for fewer.
    case noStream = "no_stream"
    /// The peer takes no more bytes: its flow-control window is used up.
    case noWindow = "no_window"
    /// The connections that there are answer nothing, and none of them said a word since it was asked.
    case noAnswer = "no_answer"
  }

  private enum Occupant: Equatable, Sendable {
    /// Nobody. Becomes `opening`.
    case nobody
    /// Being opened. Becomes `ready`, `leaving` or `nobody`.
    case opening
    /// Takes requests. Becomes `leaving` or `nobody`.
    case ready
    /// Finishes what it has. Becomes `nobody`.
    case leaving
  }

  /// Whether a connection answers, beside the others. Only what it was sent since its last answer counts.
  private enum Hearing: Equatable, Sendable {
    /// It does, or nothing is on it. Becomes `late`.
    case answering
    /// It does not, and others do: it takes what these have no room for. Becomes `answering`, or `silent`.
    case late(since: Instant)
    /// Late for long, and asked for a sign of life: it takes nothing. Becomes `answering`, or `proving` with a pong.
    case silent
    /// It is alive, by its pong: it takes one request, before all others. Becomes `silent` with that, or `answering`.
    case proving
  }

  private struct Place: Sendable {
    var occupant = Occupant.nobody
    var hearing = Hearing.answering
    /// When the oldest request was sent of those after its last answer.
    var waitingSince: Instant?
    var inFlight = 0
    /// Streams that the peer allows at once.
    var streamLimit = 0
    /// Bytes of request bodies that the peer takes now.
    var window = 0
    /// Streams that we allow ourselves, after `fewerStreams`.
    var ownLimit = Int.max
    /// Since when answers are counted; nil: none asked for fewer streams, nothing is counted.
    var pacedSince: Instant?
    var answers = 0
    var refusals = 0
    /// Requests it took.
    var taken = 0
    /// The most that were in flight, of late.
    var peak = 0

    var free: Int { max(0, min(streamLimit, ownLimit) - inFlight) }
    /// How many requests of a usual size it takes. With nothing in flight no answer will widen the window: then it is for flow control to
    /// wait, not for us.
    var room: Int { inFlight > 0 ? min(free, 1 + max(0, window) >> PoolState.typicalBodyShift) : free }
  }

  /// Bodies are usually this large; so much window counts as one stream when connections are compared.
  private static let typicalBodyShift = 9

  private let limits: Limits
  /// Those that were ever used: most pools need one.
  private var places: [Place] = []
  private var openingCount = 0
  /// Connections of use that went without our wish and are not replaced yet.
  private var owed = 0
  package private(set) var readyCount = 0
  private var lastOpenedAt: Instant?
  private var notBefore: Instant?
  private var backoff: Backoff
  /// A request found no room since the last turn, or hardly any was left.
  private var isShort = false
  /// The request that found no room last.
  private var lastRefusal: (at: Instant, byteCount: Int)?
  private var lastRequestAt: Instant?
  private var watchedSince: Instant?
  private var peakInFlight = 0
  private var wasShort = false
  private var isClosing = false
  private var answerTime = AnswerTime()
  /// Of any connection.
  private var lastAnsweredAt: Instant?
  /// `lastAnsweredAt`, when the connections were compared last.
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

  /// Openings that failed, one after the other.
  package var failures: Int { Int(backoff.failures) }

  package var breaker: Breaker {
    guard failures >= limits.breakerFailures else { return .closed }
    return openingCount > 0 ? .halfOpen : .open
  }

  /// What the connection at a place can take now. Once a turn, before requests are sent.
  package mutating func update(place: Int, inFlight: Int, streamLimit: Int, window: Int) {
    places[place].inFlight = inFlight
    places[place].streamLimit = streamLimit
    places[place].window = window
    if inFlight > places[place].peak { places[place].peak = inFlight }
    if inFlight == 0 {
      // Nothing waits for an answer, whatever became of it.
      places[place].waitingSince = nil
      if places[place].hearing != .answering { hear(place, as: .answering) }
    }
  }

  /// How many requests would find room, as far as can be said without knowing how large they are.
  package var room: Int {
    places.reduce(0) { $1.occupant == .ready && $1.hearing != .silent ? $0 + $1.room : $0 }
  }

  /// The place whose connection takes a request with a body of `byteCount`, counted as sent; nil where none has room.
  package mutating func take(byteCount: Int, now: Instant) -> Int? {
    lastRequestAt = now
    var best = -1
    var bestRoom = -1
    for index in places.indices where places[index].occupant == .ready {
      guard places[index].free > 0, places[index].inFlight == 0 || places[index].window >= byteCount else { continue }
      var room = places[index].room
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
    guard best >= 0 else {
      // Whether the first connection is enough is not known before it takes requests, however long it is being opened.
      if readyCount > 0 { isShort = true }
      lastRefusal = (now, byteCount)
      return nil
    }
    // Only a late one has room: that is hardly any.
    if bestRoom == 0 { isShort = true }
    if places[best].hearing == .proving { hear(best, as: .silent) }
    if places[best].waitingSince == nil { places[best].waitingSince = now }
    places[best].inFlight += 1
    places[best].window -= byteCount
    places[best].taken += 1
    return best
  }

  /// Why the requests of the last second find no room; nil where they find some, or none came.
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

  /// A request that `take` counted did not go out.
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
    case .nobody, .ready:
      preconditionFailure("a connection opens once")
    }
  }

  /// The connection answered a request that was sent at `sentAt`: the host takes us. true: that ends a row of failures.
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

  /// The connection answered a ping: it is alive, if not well.
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

  /// The connection takes no more requests (GOAWAY, an advice, a place in `drain`).
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
    case .nobody:
      preconditionFailure("only a connection leaves")
    }
  }

  private mutating func owe(_ place: Int) {
    if places[place].taken >= limits.replacedAtOnceRequests { owed = min(owed + 1, limits.connectionsMaximum) }
  }

  /// The connection ended. `didFail`: it never answered a request, or could not be opened: the next one waits.
  /// `random`: any random bits, for the back-off's jitter.
  package mutating func ended(place: Int, didFail: Bool, now: Instant, random: UInt64) {
    switch places[place].occupant {
    case .opening: openingCount -= 1
    case .ready:
      hear(place, as: .answering)
      readyCount -= 1
      owe(place)
    case .leaving: break
    case .nobody: preconditionFailure("a connection ends once")
    }
    places[place] = Place()
    guard didFail else { return }
    notBefore = now.adding(milliseconds: backoff.failed(random: random))
  }

  /// The back-off that an opening waits for, milliseconds from now; 0 for none.
  package func backoffMilliseconds(now: Instant) -> Int64 {
    guard let notBefore else { return 0 }
    return max(0, notBefore.milliseconds(since: now))
  }

  /// An answer of this connection says that APNs is short of breath. Where many do, it gets half of its streams, and half
  /// again; and twice as many as soon as they stop.
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

  /// Requests wait and will wait: no connection can be opened, or APNs asked each of them for fewer streams.
  package var isStalled: Bool {
    if readyCount == 0 { return failures > 0 }
    for place in places where place.occupant == .ready && place.ownLimit == .max { return false }
    return true
  }

  /// No more connections; those that are ready are to be drained.
  package mutating func close() {
    isClosing = true
  }

  /// Once a turn, after `update`. Call again after each action until it is `none`.
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
      // What replaces another does not put growth off.
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

  /// Compares the connections by what they answer. Returns one that fell silent and was not asked yet.
  private mutating func placeToPing() -> Int? {
    // Nobody answered since: nothing new can be said of anybody.
    guard readyCount > 1, let last = lastAnsweredAt, last != comparedAt else { return nil }
    let late = max(limits.lateMilliseconds * 1_000_000, answerTime.longestUsualNanoseconds)
    let silent = max(limits.silentMilliseconds * 1_000_000, 2 * answerTime.longestUsualNanoseconds)
    for index in places.indices {
      guard places[index].occupant == .ready, let waitingSince = places[index].waitingSince else { continue }
      switch places[index].hearing {
      case .answering:
        // Its own answers end its waiting, so this one was another's.
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

  /// Silent ones are replaced beside themselves; where one comes back there is one too many.
  private var placeBeyondMaximum: Int? {
    guard readyCount - silentCount > limits.connectionsMaximum else { return nil }
    var candidate: Int?
    for index in places.indices where places[index].occupant == .ready && places[index].hearing != .silent {
      if let other = candidate, places[other].inFlight <= places[index].inFlight { continue }
      candidate = index
    }
    return candidate
  }

  /// A connection has fewer streams than its peer allows, because APNs asked for less.
  private var isPaced: Bool {
    places.contains { $0.occupant == .ready && $0.ownLimit != .max }
  }

  private func placeToOpen(_ now: Instant) -> Int? {
    let takingCount = readyCount - silentCount
    guard openingCount == 0, takingCount < limits.connectionsMaximum, let lastRequestAt else { return nil }
    if let notBefore, now < notBefore { return nil }
    if takingCount == 0 {
      // The first one, or the last one is gone: as long as somebody may want it.
      guard now.milliseconds(since: lastRequestAt) < limits.keepWarmMilliseconds else { return nil }
    } else {
      // Where APNs asks for fewer streams, the shortage is of our own making.
      guard owed > 0 || isShort && !isPaced else { return nil }
    }
    if owed == 0, let last = lastOpenedAt, now.milliseconds(since: last) < limits.openIntervalMilliseconds {
      return nil
    }
    return places.firstIndex { $0.occupant == .nobody } ?? (places.count < placeCount ? places.count : nil)
  }

  /// The least busy connection, where a whole interval has shown that the others would do with half of their streams.
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
