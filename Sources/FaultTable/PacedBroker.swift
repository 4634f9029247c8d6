package import PushCore
package import PushLane

/// A broker that offers jobs at a rate and records their outcomes.
///
/// Jobs are numbered from 0; a job's number is in its id, which is also its `apns-id`. The number decides when a job is due,
/// whether or not the lane has room: waiting in the queue counts as latency. Retries wait in memory.
package struct PacedBroker: Broker {
  /// The record of one job.
  package struct Record: Sendable {
    /// The number of its outcomes, of any kind.
    package fileprivate(set) var outcomes: UInt8 = 0
    package fileprivate(set) var isAccepted = false
    package fileprivate(set) var isAmbiguous = false
    /// Milliseconds from its due time to its outcome.
    package fileprivate(set) var latencyMilliseconds: Float = 0
    package fileprivate(set) var attempts: UInt8 = 0
  }

  private struct Retry {
    var number: Int
    var dueAt: Int64
    var state: RetryState
  }

  package static let apps = ["com.example.one", "com.example.two"]

  private let rate: Double
  private let prefetch: Int
  private let appCount: Int
  private let clock: () -> Now
  private var begunAt: Instant?
  private var end: Int?
  private var next = 0
  private var current: (number: Int, state: RetryState?) = (0, nil)
  /// By delay: the copy that waits longest comes first.
  private var retries: [Int: (items: [Retry], head: Int)] = [:]
  private var numberOfTag: [UInt64: Int] = [:]
  private var isStarted = false
  private var reportedPublishing = false
  private var tag: UInt64 = 0
  private var unacknowledged = 0
  private var sequence: UInt64 = 0
  private var confirmed: UInt64 = 0
  package private(set) var records: [Record] = []
  /// Outcomes `accepted`, by tenths of a second since the beginning and by app.
  package private(set) var acceptedPerTenth: [[Int]]
  package private(set) var finished = 0

  /// `rate`: jobs a second, in turn for each of the apps.
  package init(rate: Double, prefetch: Int, appCount: Int, clock: @escaping () -> Now) {
    precondition((1...PacedBroker.apps.count).contains(appCount))
    self.rate = rate
    self.prefetch = prefetch
    self.appCount = appCount
    self.clock = clock
    acceptedPerTenth = Array(repeating: [], count: appCount)
  }

  package var canPublish: Bool { true }
  package var offered: Int { next }

  /// Milliseconds since the first turn.
  package var elapsedMilliseconds: Int64 { begunAt.map { clock().monotonic.milliseconds(since: $0) } ?? 0 }

  /// Offers no new jobs after those that are due now; retries go on.
  package mutating func stopOffering() {
    end = due
  }

  /// Every job has its outcome.
  package var isDone: Bool { end.map { next >= $0 && finished >= $0 } ?? false }

  /// Which app a job is for.
  package func app(of number: Int) -> Int { number % appCount }

  /// When a job is due, milliseconds since the beginning.
  package func dueMilliseconds(of number: Int) -> Double { Double(number) / rate * 1000 }

  private var due: Int {
    guard let begunAt else { return 0 }
    let elapsed = clock().monotonic.nanoseconds - begunAt.nanoseconds
    return min(end ?? .max, Int(Double(elapsed) * rate / 1e9) + 1)
  }

  // MARK: Broker

  package mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if !isStarted {
      isStarted = true
      begunAt = clock().monotonic
      return .consuming(epoch: 1)
    }
    if !reportedPublishing {
      reportedPublishing = true
      return .publishing
    }
    if confirmed < sequence {
      confirmed = sequence
      return .confirmed(1...sequence)
    }
    guard takesDeliveries, unacknowledged < prefetch else { return nil }
    let now = clock().unixMilliseconds
    for delay in retries.keys {
      guard let list = retries[delay], list.head < list.items.count, list.items[list.head].dueAt <= now else {
        continue
      }
      let retry = list.items[list.head]
      retries[delay]?.head += 1
      if list.head + 1 == list.items.count { retries[delay] = ([], 0) }
      return delivery(retry.number, retry.state)
    }
    guard next < due else { return nil }
    next += 1
    records.append(Record())
    return delivery(next - 1, nil)
  }

  private mutating func delivery(_ number: Int, _ state: RetryState?) -> BrokerEvent {
    tag += 1
    unacknowledged += 1
    numberOfTag[tag] = number
    current = (number, state)
    return .delivery(
      Delivery(
        tag: DeliveryTag(epoch: 1, jobClass: .transactional, value: tag), bodyCount: 250, isOversized: false))
  }

  package mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    metadata.reset()
    job.bytes.removeAll(keepingCapacity: true)
    job.bytes.append(contentsOf: PacedBroker.opening)
    PacedBroker.identifier(of: current.number).write(to: &job.bytes)
    job.bytes.append(contentsOf: Array(#"","app":"\#(PacedBroker.apps[app(of: current.number)])","#.utf8))
    job.bytes.append(contentsOf: Array(#""push_type":"alert","to":{"token":"00fc0000"#.utf8))
    job.bytes.append(contentsOf: Array(Hex.text(current.number, count: 24).utf8))
    job.bytes.append(contentsOf: Array(#""},"payload":{"aps":{"alert":"\#(PacedBroker.alert)"}}}"#.utf8))
    job.bodyCount = job.bytes.count
    guard let state = current.state else { return }
    metadata.attempts = state.attempts
    metadata.firstSeen = state.firstSeen
    metadata.claim = state.claim
    metadata.isAmbiguous = state.isAmbiguous
    metadata.apnsID = state.apnsID
  }

  /// So that a payload has about 200 bytes.
  private static let alert = String(repeating: "The order of today is on its way. ", count: 5)

  /// A job's id as a UUID: its number is in the last 48 bits.
  package static func identifier(of number: Int) -> UUIDValue {
    UUIDValue(high: 0x4000, low: 0x8000_0000_0000_0000 | UInt64(number))
  }

  private static func number(of identifier: UUIDValue) -> Int { Int(identifier.low & 0xffff_ffff_ffff) }

  /// What a job begins with; its id follows.
  private static let opening = Array(#"{"version":1,"id":""#.utf8)

  /// A job that is put off before it has a target has no `apns-id`.
  private static func number(ofJob body: [UInt8]) -> Int {
    let digits = body.dropFirst(opening.count + 24).prefix(12)
    guard let number = Int(String(decoding: digits, as: UTF8.self), radix: 16) else {
      preconditionFailure("a retry copy has its job's body")
    }
    return number
  }

  package mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let number = PacedBroker.number(of: apnsID)
    let text = String(decoding: body, as: UTF8.self)
    let isAccepted = routingKey.starts(with: "accepted.".utf8)
    let elapsed = Double(elapsedMilliseconds)
    if records[number].outcomes == 0 { finished += 1 }
    records[number].outcomes += 1
    records[number].isAccepted = isAccepted
    records[number].isAmbiguous = text.contains(#""ambiguous":true"#)
    records[number].latencyMilliseconds = Float(elapsed - dueMilliseconds(of: number))
    records[number].attempts = UInt8(clamping: PacedBroker.attempts(in: text))
    if isAccepted {
      let app = app(of: number)
      let tenth = Int(elapsed / 100)
      while acceptedPerTenth[app].count <= tenth { acceptedPerTenth[app].append(0) }
      acceptedPerTenth[app][tenth] += 1
    }
    sequence += 1
    return sequence
  }

  private static func attempts(in text: String) -> Int {
    let parts = text.split(separator: #""attempts":"#, maxSplits: 1)
    return parts.count == 2 ? Int(parts[1].prefix { $0.isNumber }) ?? 0 : 0
  }

  package mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    let dueAt = clock().unixMilliseconds + Int64(delaySeconds) * 1000
    let retry = Retry(number: PacedBroker.number(ofJob: body), dueAt: dueAt, state: state)
    retries[delaySeconds, default: ([], 0)].items.append(retry)
    sequence += 1
    return sequence
  }

  /// A returned job comes as a new delivery, so no job is isolated.
  package mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    preconditionFailure("a delivery that was given once was not finished before")
  }

  package mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    sequence += 1
    return sequence
  }

  package mutating func acknowledge(upTo tag: DeliveryTag) {
    var value = tag.value
    // Tags below it that were settled singly are gone already; one run of tags ends where the next begins.
    while value > acknowledgedUpTo {
      if numberOfTag.removeValue(forKey: value) != nil { unacknowledged -= 1 }
      value -= 1
    }
    acknowledgedUpTo = max(acknowledgedUpTo, tag.value)
  }

  private var acknowledgedUpTo: UInt64 = 0

  package mutating func acknowledge(one tag: DeliveryTag) {
    if numberOfTag.removeValue(forKey: tag.value) != nil { unacknowledged -= 1 }
  }

  package mutating func reject(_ tag: DeliveryTag, requeue: Bool) {
    guard let number = numberOfTag.removeValue(forKey: tag.value) else { return }
    unacknowledged -= 1
    let state = RetryState(
      attempts: 0, firstSeen: clock().unixMilliseconds, isAmbiguous: false,
      apnsID: PacedBroker.identifier(of: number), reason: nil)
    retries[0, default: ([], 0)].items.append(Retry(number: number, dueAt: 0, state: state))
  }

  package mutating func stopConsuming() {}
}
