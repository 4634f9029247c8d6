/// A pool's connections to one host with one credential: which one takes the next request, when another one is opened,
/// and when one is let go.
///
/// Each connection has a place. What it can take (streams, send window) is told once a turn with `update`; between two
/// turns the pool counts down itself. Connections are opened one by one, seconds apart, and only for need: after
/// failures later and later, and after several in a row the breaker is open: one attempt at a time, a minute apart.
package struct PoolState: Sendable {
  package struct Limits: Sendable {
    /// Connections that take requests or are being opened. Draining ones come on top, at most as many again.
    package var connectionsMaximum = 8
    /// Between two openings.
    package var openIntervalMilliseconds: Int64 = 1_000
    /// After the first failure; doubled after each.
    package var backoffFirstMilliseconds: Int64 = 500
    package var backoffLongestMilliseconds: Int64 = 60_000
    /// Failures in a row that open the breaker.
    package var breakerFailures = 5
    /// How long the load is watched before a connection is let go.
    package var shrinkIntervalMilliseconds: Int64 = 60_000
    /// A pool without a request for this long does not replace its last connection.
    package var keepWarmMilliseconds: Int64 = 600_000
    /// Between two steps back to all streams, after `fewerStreams`.
    package var recoverMilliseconds: Int64 = 1_000

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
    var ownLimitChangedAt = Instant(nanoseconds: 0)

    var free: Int { max(0, min(streamLimit, ownLimit) - inFlight) }
  }

  /// Bodies are usually this large; so much window counts as one stream when connections are compared.
  private static let typicalBodyShift = 9

  private let limits: Limits
  private var places: [Place]
  private var openingCount = 0
  package private(set) var readyCount = 0
  private var lastOpenedAt: Instant?
  private var notBefore: Instant?
  private var backoff: Backoff
  /// A request found no room since the last turn, or hardly any was left.
  private var isShort = false
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
      return nil
    }
    places[best].inFlight += 1
    places[best].window -= byteCount
    return best
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
  package mutating func proved() -> Bool {
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
    case .leaving:
      break
    case .nobody:
      preconditionFailure("only a connection leaves")
    }
  }

  /// The connection ended. `didFail`: it never answered a request, or could not be opened: the next one waits.
  /// `random`: any random bits, for the back-off's jitter.
  package mutating func ended(place: Int, didFail: Bool, now: Instant, random: UInt64) {
    switch places[place].occupant {
    case .opening: openingCount -= 1
    case .ready: readyCount -= 1
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

  /// APNs is short of breath: half the streams of this connection, and slowly back.
  package mutating func fewerStreams(place: Int, now: Instant) {
    guard places[place].occupant == .ready else { return }
    if places[place].ownLimit != .max,
      now.milliseconds(since: places[place].ownLimitChangedAt) < limits.recoverMilliseconds
    {
      // Answers to what was sent before the last halving say nothing new.
      return
    }
    places[place].ownLimit = max(1, min(places[place].ownLimit, places[place].inFlight + 1) / 2)
    places[place].ownLimitChangedAt = now
  }

  /// No more connections; those that are ready are to be drained.
  package mutating func close() {
    isClosing = true
  }

  /// Once a turn, after `update`. Call again after each action until it is `none`.
  package mutating func turn(now: Instant) -> Action {
    recoverStreams(now)
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
      lastOpenedAt = now
      isShort = false
      return .open(place: place)
    }
    wasShort = wasShort || isShort
    isShort = false
    guard let place = placeToLetGo(now) else { return .none }
    leaves(place: place)
    return .drain(place: place)
  }

  private func placeToOpen(_ now: Instant) -> Int? {
    guard openingCount == 0, readyCount < limits.connectionsMaximum, let lastRequestAt else { return nil }
    if let notBefore, now < notBefore { return nil }
    if readyCount == 0 {
      // The first one, or the last one is gone: as long as somebody may want it.
      guard now.milliseconds(since: lastRequestAt) < limits.keepWarmMilliseconds else { return nil }
    } else {
      guard isShort else { return nil }
    }
    if let last = lastOpenedAt, now.milliseconds(since: last) < limits.openIntervalMilliseconds { return nil }
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

  private mutating func recoverStreams(_ now: Instant) {
    for index in places.indices where places[index].ownLimit != .max {
      guard now.milliseconds(since: places[index].ownLimitChangedAt) >= limits.recoverMilliseconds else { continue }
      let larger = places[index].ownLimit + max(1, places[index].ownLimit / 4)
      places[index].ownLimit = larger >= places[index].streamLimit ? .max : larger
      places[index].ownLimitChangedAt = now
    }
  }
}
