/// A pool's connections to one host with one credential: which one takes the next request, when another one is opened,
/// and when one is let go.
///
/// Each connection has a place. What it can take (streams, send window) is told once a turn with `update`; between two
/// turns the pool counts down itself. Connections are opened one by one, seconds apart, and only for need: after
/// failures later and later, and after several in a row the breaker is open: one attempt at a time, ten seconds apart.
/// What was of use and goes without our wish (a GOAWAY, a cut) is replaced at once: a host that sends us away every
/// thousand requests is followed.
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
    package var backoffLongestMilliseconds: Int64 = 10_000
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

    package init() {}
  }

  package enum Action: Equatable, Sendable {
    case none
    /// Open a connection at this place.
    case open(place: Int)
    /// Let the connection at this place finish, and close it.
    case drain(place: Int)
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

  private struct Place: Sendable {
    var occupant = Occupant.nobody
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
  }

  /// Bodies are usually this large; so much window counts as one stream when connections are compared.
  private static let typicalBodyShift = 9

  private let limits: Limits
  private var places: [Place]
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

  package init(limits: Limits = Limits()) {
    precondition(limits.connectionsMaximum >= 1, "a pool has at least one connection")
    self.limits = limits
    backoff = Backoff(
      initialMilliseconds: limits.backoffFirstMilliseconds, maximumMilliseconds: limits.backoffLongestMilliseconds)
    places = Array(repeating: Place(), count: limits.connectionsMaximum * 2)
  }

  package var placeCount: Int { places.count }
  package var isOpening: Bool { openingCount > 0 }
  package var leavingCount: Int { places.count { $0.occupant == .leaving } }
  package var inFlight: Int { places.reduce(0) { $0 + $1.inFlight } }

  /// Openings that failed, one after the other.
  package var failures: Int { Int(backoff.failures) }

  package var breaker: Breaker {
    guard failures >= limits.breakerFailures else { return .closed }
    return openingCount > 0 ? .halfOpen : .open
  }

  /// What the connection at a place can take now. Told once a turn, before requests are sent.
  package mutating func update(place: Int, inFlight: Int, streamLimit: Int, window: Int) {
    places[place].inFlight = inFlight
    places[place].streamLimit = streamLimit
    places[place].window = window
    if inFlight > places[place].peak { places[place].peak = inFlight }
  }

  /// Whether a request would find room.
  package var hasRoom: Bool {
    for place in places where place.occupant == .ready && place.free > 0 { return true }
    return false
  }

  /// The place whose connection takes a request with a body of `byteCount`, counted as sent; nil where none has room.
  package mutating func take(byteCount: Int, now: Instant) -> Int? {
    lastRequestAt = now
    var best = -1
    var bestRoom = 0
    for index in places.indices where places[index].occupant == .ready {
      let free = places[index].free
      guard free > 0 else { continue }
      var room = free
      // With nothing in flight no answer will widen the window: then it is for flow control to wait, not for us.
      if places[index].inFlight > 0 {
        guard places[index].window >= byteCount else { continue }
        room = min(free, 1 + places[index].window >> PoolState.typicalBodyShift)
      }
      if room > bestRoom {
        bestRoom = room
        best = index
      }
    }
    guard best >= 0 else {
      isShort = true
      lastRefusal = (now, byteCount)
      return nil
    }
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

  /// The connection answered a request: the host takes us. true: that ends a row of failures.
  package mutating func answered(place: Int) -> Bool {
    places[place].answers += 1
    guard failures > 0 else { return false }
    backoff.succeeded()
    notBefore = nil
    return true
  }

  /// The connection takes no more requests (GOAWAY, an advice, a place in `drain`).
  package mutating func leaves(place: Int) {
    switch places[place].occupant {
    case .opening:
      openingCount -= 1
      places[place].occupant = .leaving
    case .ready:
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
    let total = inFlight
    peakInFlight = max(peakInFlight, total)
    if let place = placeToOpen(now) {
      places[place].occupant = .opening
      openingCount += 1
      // What replaces another does not put growth off.
      if owed > 0 { owed -= 1 } else { lastOpenedAt = now }
      isShort = false
      return .open(place: place)
    }
    wasShort = wasShort || isShort
    isShort = false
    guard let place = placeToLetGo(now) else { return .none }
    readyCount -= 1
    places[place].occupant = .leaving
    return .drain(place: place)
  }

  private func placeToOpen(_ now: Instant) -> Int? {
    guard openingCount == 0, readyCount < limits.connectionsMaximum, let lastRequestAt else { return nil }
    if let notBefore, now < notBefore { return nil }
    if readyCount == 0 {
      // The first one, or the last one is gone: as long as somebody may want it.
      guard now.milliseconds(since: lastRequestAt) < limits.keepWarmMilliseconds else { return nil }
    } else {
      guard isShort || owed > 0 else { return nil }
    }
    if owed == 0, let last = lastOpenedAt, now.milliseconds(since: last) < limits.openIntervalMilliseconds {
      return nil
    }
    return places.firstIndex { $0.occupant == .nobody }
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
