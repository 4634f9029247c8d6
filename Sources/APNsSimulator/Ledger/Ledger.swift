package import PushCore

/// An exact record of what was received and accepted, to audit a sender against.
///
/// The number of acceptances of each `apns-id` is complete up to a maximum of ids; of single requests the newest are kept.
public struct Ledger: Sendable {
  package struct Bounds: Sendable {
    /// Maximum of single requests kept. 0: only counts.
    public var entriesMaximum = 200_000
    /// Maximum of different `apns-id`s counted.
    package var identifiersMaximum = 4_000_000
    /// Maximum of payloads kept for the page.
    package var notificationsMaximum = 100
    /// Maximum of connections kept.
    package var connectionsMaximum = 10_000

    package init() {}
  }

  package var bounds = Bounds()
  /// Requests that were received completely.
  public private(set) var requests = 0
  /// Notifications and broadcasts answered with success, or processed before a fault replaced their answer.
  public private(set) var accepted = 0
  /// Answers by status and reason, e.g. `410 Unregistered`.
  public private(set) var answers: [String: Int] = [:]
  /// The endings that replaced answers.
  package private(set) var endings: [LedgerEntry.Ending: Int] = [:]
  /// Acceptances of each `apns-id`.
  package private(set) var acceptances: [UUIDValue: UInt32] = [:]
  /// Ids that were not counted because there were too many.
  package private(set) var identifiersDropped = 0
  package private(set) var entriesDropped = 0
  /// Counts of Live Activities on simulated devices.
  public internal(set) var activities = ActivityCounts()
  /// Connections that a fault refused TLS.
  package internal(set) var handshakesRefused = 0
  /// Every connection and what its client did, the oldest first.
  public private(set) var connections: [LedgerConnection] = []
  /// Number of connections ever opened.
  public private(set) var connectionsOpened = 0
  private var entryStore: [LedgerEntry] = []
  private var entryStart = 0
  private var notificationStore: [SeenNotification] = []

  package init() {}

  // MARK: - Writing

  /// One request and its result. `isAccepted`: even if the client was not told.
  package mutating func record(_ entry: LedgerEntry, isAccepted: Bool, payload: [UInt8]) {
    requests += 1
    var entry = entry
    entry.number = requests
    endings[entry.ending, default: 0] += 1
    if entry.ending == .answered || entry.ending == .gone {
      answers[entry.reason.map { "\(entry.status) \($0)" } ?? String(entry.status), default: 0] += 1
    }
    if isAccepted {
      accepted += 1
      countAcceptance(entry.apnsID.utf8.span)
      if bounds.notificationsMaximum > 0 {
        if notificationStore.count >= bounds.notificationsMaximum { notificationStore.removeFirst() }
        notificationStore.append(SeenNotification(entry: entry, payload: payload))
      }
    }
    keep(entry)
  }

  /// The fast path of the fast mode: no entry, no answer text.
  mutating func recordAccepted(apnsID: Span<UInt8>, countsIdentifiers: Bool) {
    requests += 1
    accepted += 1
    if countsIdentifiers { countAcceptance(apnsID) }
  }

  private mutating func countAcceptance(_ apnsID: Span<UInt8>) {
    guard let key = Ledger.key(apnsID) else { return }
    if acceptances.count >= bounds.identifiersMaximum, acceptances[key] == nil {
      identifiersDropped += 1
    } else {
      acceptances[key, default: 0] += 1
    }
  }

  private mutating func keep(_ entry: LedgerEntry) {
    guard bounds.entriesMaximum > 0 else { return }
    if entryStore.count < bounds.entriesMaximum {
      entryStore.append(entry)
    } else {
      entryStore[entryStart] = entry
      entryStart = (entryStart + 1) % entryStore.count
      entriesDropped += 1
    }
  }

  /// A new connection; returns its number.
  package mutating func open(peer: String, at unixMilliseconds: Int64) -> Int {
    connectionsOpened += 1
    if connections.count < bounds.connectionsMaximum {
      connections.append(LedgerConnection(number: connectionsOpened, peer: peer, openedAt: unixMilliseconds))
    }
    return connectionsOpened
  }

  package mutating func update(connection number: Int, _ change: (inout LedgerConnection) -> Void) {
    guard number >= 1, number <= connections.count else { return }
    change(&connections[number - 1])
  }

  /// Clears requests and their counts; connections stay.
  package mutating func clearRequests() {
    requests = 0
    accepted = 0
    answers.removeAll()
    endings.removeAll()
    acceptances.removeAll()
    identifiersDropped = 0
    entriesDropped = 0
    entryStore.removeAll()
    entryStart = 0
    notificationStore.removeAll()
  }

  // MARK: - Reading

  /// The last requests, oldest first.
  public var entries: [LedgerEntry] { Array(entryStore[entryStart...] + entryStore[..<entryStart]) }
  /// The last accepted notifications with their payloads, oldest first.
  public var lastNotifications: [SeenNotification] { notificationStore }

  /// Acceptances of one id; 0 if the text is not a UUID.
  public func acceptances(of apnsID: String) -> Int {
    Ledger.key(apnsID.utf8.span).map { Int(acceptances[$0] ?? 0) } ?? 0
  }

  /// Ids that were accepted more than once.
  package var duplicates: [UUIDValue: UInt32] { acceptances.filter { $0.value > 1 } }
  /// The same as text, for other packages: acceptances by `apns-id` in lower case.
  public var duplicateIDs: [String: Int] {
    Dictionary(uniqueKeysWithValues: duplicates.map { (Ledger.text(of: ($0.key.high, $0.key.low)), Int($0.value)) })
  }
  /// Different ids that were accepted at least once.
  public var distinctAccepted: Int { acceptances.count }
  /// Answers other than success.
  public var refused: Int { answers.reduce(0) { $0 + ($1.key.hasPrefix("2") ? 0 : $1.value) } }
  /// Streams that clients opened above the limit in the simulator's SETTINGS.
  public var streamsOverLimit: Int { connections.reduce(0) { $0 + $1.streamsOverLimit } }
  /// PINGs of all clients.
  public var pings: Int { connections.reduce(0) { $0 + $1.pings } }
  /// How often a connection's provider token changed.
  public var tokenChanges: Int { connections.reduce(0) { $0 + $1.tokenChanges } }
  /// Connections that are open now.
  public var connectionsOpen: Int { connections.reduce(0) { $0 + ($1.closedAt == nil ? 1 : 0) } }
  /// How often this answer was given; `reason` nil: the status alone, as for 200.
  public func answers(status: Int, reason: String? = nil) -> Int {
    answers[reason.map { "\(status) \($0)" } ?? String(status), default: 0]
  }

  /// A UUID's 128 bits; nil if the text is not a UUID.
  static func key(_ text: Span<UInt8>) -> UUIDValue? {
    guard text.count == 36 else { return nil }
    var high: UInt64 = 0
    var low: UInt64 = 0
    for index in 0..<36 {
      if index == 8 || index == 13 || index == 18 || index == 23 {
        if text[index] != UInt8(ascii: "-") { return nil }
        continue
      }
      guard let digit = Hex.value(text[index]) else { return nil }
      if index < 18 { high = high << 4 | UInt64(digit) } else { low = low << 4 | UInt64(digit) }
    }
    return UUIDValue(high: high, low: low)
  }
}
