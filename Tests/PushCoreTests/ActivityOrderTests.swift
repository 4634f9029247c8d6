import PushCore
import Testing

/// The newest update by its producer's order is what every device shows, whichever of them comes first.
@Suite struct ActivityOrderTests {
  /// A job of the activity: a start (sequence 0), updates, and perhaps an end.
  struct Job: Hashable, Sendable {
    enum Kind: Hashable { case start, update, end }

    var kind: Kind
    var sequence: Int64
  }

  /// How its jobs end.
  enum End: Hashable { case sent, superseded, ended }

  /// One activity, with a device that is started and one whose app started the activity itself.
  private struct World {
    private var activity: ActivityState?
    private var jobs = ActivityJobs()
    private var members: [ActivityMember?] = [nil, nil]
    private var now: Int64 = 1_796_000_000_000
    /// What the devices show: the timestamp and the job.
    private(set) var shown: [(timestamp: Int64, job: Job)?] = [nil, nil]
    private(set) var ends: [Job: End] = [:]
    private var held: (job: Job, number: UInt32)?
    private var early: [Job] = []
    private(set) var timestamps: [Int64] = []

    mutating func play(_ order: [Job], appAt: Int) throws {
      for (place, job) in order.enumerated() {
        if place == appAt { try register(1) }
        try take(job)
        for job in early.filter({ _ in activity != nil }) {
          early.removeAll { $0 == job }
          try take(job)
        }
      }
      if appAt >= order.count { try register(1) }
      try begin()
    }

    private func order(_ job: Job) -> JobOrder {
      JobOrder(sequence: job.sequence, timestamp: nil, point: 0)
    }

    private mutating func take(_ job: Job) throws {
      let word = UInt64(job.sequence) + 100
      guard job.kind != .start else {
        let revision: ActivityRevision
        do {
          revision = try ActivityState.start(&activity, type: "T", digest: 1, job: word, jobs: &jobs, now: now)
        } catch {
          ends[job] = .ended
          return
        }
        ends[job] = .sent
        guard activity?.resolveStart(word, &members[0], now: now) == .send else { return }
        shown[0] = (revision.timestamp, job)
        return try register(0)
      }
      let revised: ActivityState.Revised
      do {
        revised = try ActivityState.revise(
          &activity, isEnd: job.kind == .end, order: order(job), job: word, jobs: &jobs, mayWait: true, now: now)
      } catch {
        ends[job] = .ended
        return
      }
      try goOn(revised, job)
    }

    private mutating func goOn(_ revised: ActivityState.Revised, _ job: Job) throws {
      switch revised {
      case .early: early.append(job)
      case .superseded: ends[job] = .superseded
      case .waits(let revision, _):
        if let held { ends[held.job] = .superseded }
        held = (job, revision.number)
      case .begun(let revision):
        if let held, held.job != job { ends[held.job] = .superseded }
        held = nil
        ends[job] = .sent
        timestamps.append(revision.timestamp)
        for device in members.indices { push(.init(revision: revision.number), revision, job, to: device) }
      }
    }

    /// What waits for its timestamp is sent.
    private mutating func begin() throws {
      guard let held else { return }
      now += 10_000
      self.held = nil
      try goOn(ActivityState.begin(&activity, number: held.number, now: now), held.job)
    }

    private mutating func push(_ push: ActivityState.Push, _ revision: ActivityRevision, _ job: Job, to device: Int) {
      guard case .send = activity?.resolve(push, &members[device], now: now) else { return }
      // The system ignores an older one.
      if revision.timestamp > shown[device]?.timestamp ?? 0 { shown[device] = (revision.timestamp, job) }
    }

    private mutating func register(_ device: Int) throws {
      let answer = ActivityState.register(&activity, &members[device], token: [UInt8(device) + 1], at: now, now: now)
      guard case .late(let revision, _) = answer else { return }
      // Its job is the one that is shown by others, or waits.
      guard let job = held?.job ?? ends.first(where: { $0.value == .sent && isNewest($0.key) })?.key else { return }
      push(.init(revision: revision.number, isLate: true), revision, job, to: device)
    }

    private func isNewest(_ job: Job) -> Bool {
      job.kind != .start
        && !ends.contains { other, end in
          guard end == .sent, other.kind != .start, other != job else { return false }
          return other.kind == .end || job.kind == .update && other.sequence > job.sequence
        }
    }
  }

  /// What was played, should it be wrong.
  private struct Told: CustomStringConvertible {
    let order: [Job]
    let appAt: Int
    let ends: [Job: End]

    var description: String {
      "\(order.map(\.sequence)), the app's device at \(appAt): \(ends.map { "\($0.key.sequence) \($0.value)" })"
    }
  }

  private static func permutations<Value>(_ values: [Value]) -> [[Value]] {
    guard values.count > 1 else { return [values] }
    return values.indices.flatMap { index in
      var rest = values
      let first = rest.remove(at: index)
      return permutations(rest).map { [first] + $0 }
    }
  }

  /// Up to five updates, an end behind them or none, and the start, in every order of arrival; the app's own device at each place.
  @Test(arguments: 0...5, [true, false])
  func theLargestSequenceWinsInEveryOrder(updates: Int, hasEnd: Bool) throws {
    var all = (0..<updates).map { Job(kind: .update, sequence: Int64($0) + 1) }
    if hasEnd { all.append(Job(kind: .end, sequence: 10)) }
    let newest = all.last
    let start = Job(kind: .start, sequence: 0)
    all.append(start)
    var played = 0
    for order in Self.permutations(all) {
      for appAt in [0, order.count / 2, order.count] {
        var world = World()
        try world.play(order, appAt: appAt)
        played += 1
        let told = Told(order: order, appAt: appAt, ends: world.ends)
        guard let newest else { continue }
        #expect(world.ends.count == all.count, "each has an end: \(told)")
        #expect(world.ends[newest] == .sent, "\(told)")
        // A device that was not started before the end shows nothing.
        #expect(world.shown[0] == nil || world.shown[0]?.job == newest, "\(told)")
        #expect(world.shown[1] == nil || world.shown[1]?.job == newest, "\(told)")
        #expect(hasEnd || world.shown[0]?.job == newest && world.shown[1]?.job == newest, "\(told)")
        #expect(
          world.ends.allSatisfy { $0.key == start || $0.value != .ended }, "older than the end is superseded: \(told)")
        #expect(zip(world.timestamps, world.timestamps.dropFirst()).allSatisfy { $0 < $1 }, "\(told)")
      }
    }
    #expect(played > 0)
  }

  /// The same where the end has a smaller number than some updates.
  @Test(arguments: 1...4, [false, true]) func theEndWinsInEveryOrder(updates: Int, isFirst: Bool) throws {
    let updates = (0..<updates).map { Job(kind: .update, sequence: Int64($0) * 2 + 3) }
    let end = Job(kind: .end, sequence: isFirst ? 2 : 4)
    let start = Job(kind: .start, sequence: 0)
    for order in Self.permutations(updates + [end, start]) {
      for appAt in [0, order.count / 2, order.count] {
        var world = World()
        try world.play(order, appAt: appAt)
        let told = Told(order: order, appAt: appAt, ends: world.ends)
        #expect(world.ends.count == order.count && world.ends[end] == .sent, "\(told)")
        // A device that was not started before the end shows nothing.
        #expect(world.shown.allSatisfy { $0 == nil || $0?.job == end }, "\(told)")
      }
    }
  }

  // MARK: traces

  private static let now: Int64 = 1_796_000_000_000

  private struct Trace {
    var activity: ActivityState?
    var jobs = ActivityJobs()
    var now = ActivityOrderTests.now
    var points = OrderPoints()

    init(isStarted: Bool = true) throws {
      if isStarted { try start() }
    }

    mutating func start() throws {
      _ = try ActivityState.start(&activity, type: "T", digest: 1, job: 1_000, jobs: &jobs, now: now)
    }

    /// As of a job that comes now.
    private mutating func order(_ sequence: Int64?, _ timestamp: Int64? = nil) -> JobOrder {
      JobOrder(
        sequence: sequence, timestamp: timestamp, point: points.next(timestamp: timestamp, receivedAt: now))
    }

    mutating func take(
      _ job: UInt64, sequence: Int64? = nil, timestamp: Int64? = nil, isEnd: Bool = false, mayWait: Bool = false
    ) throws -> ActivityState.Revised {
      now += 2_000
      return try ActivityState.revise(
        &activity, isEnd: isEnd, order: order(sequence, timestamp),
        job: job,
        jobs: &jobs, mayWait: mayWait, now: now)
    }

    mutating func revise(
      _ job: UInt64, _ sequence: Int64, showsLast: Bool = false, at: Int64
    ) throws -> ActivityState.Revised {
      try ActivityState.revise(
        &activity, isEnd: showsLast, showsLast: showsLast,
        order: order(sequence),
        job: job, jobs: &jobs, now: ActivityOrderTests.now + at)
    }

    /// - Parameter second: of its message's timestamp.
    mutating func revise(_ job: UInt64, second: Int64, showsLast: Bool = false) throws -> ActivityState.Revised {
      try ActivityState.revise(
        &activity, isEnd: showsLast, showsLast: showsLast,
        order: order(nil, ActivityOrderTests.now / 1_000 + second), job: job, jobs: &jobs,
        now: ActivityOrderTests.now + 5_000)
    }

    /// Ends it for one device.
    mutating func leave(_ job: UInt64, sequence: Int64, mayWait: Bool = false) throws -> ActivityState.Revised {
      var members: [ActivityMember?] = [nil]
      return try ActivityState.leave(
        &activity, &members, order: order(sequence), job: job,
        jobs: &jobs,
        mayWait: mayWait, now: now)
    }

    /// Whether it becomes the newest state.
    mutating func isTaken(
      _ job: UInt64, sequence: Int64? = nil, timestamp: Int64? = nil, isEnd: Bool = false
    ) throws -> Bool {
      if case .begun = try take(job, sequence: sequence, timestamp: timestamp, isEnd: isEnd) { true } else { false }
    }
  }

  @Test func afterTheEnd_theOlderIsSuperseded_theNewerInvalid() throws {
    var trace = try Trace()
    #expect(try trace.isTaken(1, sequence: 5, isEnd: true))
    #expect(try trace.take(2, sequence: 4) == .superseded(number: 0, by: 2))
    #expect(try trace.take(3, sequence: 3, isEnd: true) == .superseded(number: 0, by: 2))
    #expect(throws: ActivityRefusal.ended) { try trace.take(4, sequence: 6) }
    #expect(throws: ActivityRefusal.ended) { try trace.take(5) }
    #expect(try trace.isTaken(1, sequence: 5, isEnd: true), "the end again")
  }

  /// The clock of who ends it may be behind that of who updates it: the activity has ended, whichever of both comes first.
  @Test(arguments: [true, false]) func anEndWithASmallerNumber_endsItAsWell(endIsFirst: Bool) throws {
    var trace = try Trace()
    #expect(try trace.isTaken(1, sequence: 2))
    for isEnd in [endIsFirst, !endIsFirst] {
      switch (isEnd, endIsFirst) {
      case (true, _): #expect(try trace.isTaken(2, sequence: 4, isEnd: true))
      case (false, false): #expect(try trace.isTaken(3, sequence: 6))
      case (false, true): #expect(throws: ActivityRefusal.ended) { try trace.take(3, sequence: 6) }
      }
    }
    #expect(trace.activity?.phase(now: trace.now) == .ended && trace.activity?.content?.isEnd == true)
    #expect(trace.activity?.content?.place == 4, "its own: others are compared with the end alone")
    #expect(try trace.isTaken(2, sequence: 4, isEnd: true), "the end again")
    #expect(throws: ActivityRefusal.ended) { try trace.take(4, sequence: 5) }
    #expect(throws: ActivityRefusal.ended) { try trace.take(5, sequence: 7) }
    guard case .superseded(number: 0, _) = try trace.take(6, sequence: 3) else {
      return #expect(Bool(false), "it is older than the end")
    }
    #expect(try trace.isTaken(7, sequence: 5, isEnd: true), "a newer end")
    guard case .superseded(number: 0, _) = try trace.take(8, sequence: 4, isEnd: true) else {
      return #expect(Bool(false), "an older one")
    }
  }

  /// It shows the newest state there is, which is newer than itself.
  @Test func anEndWithoutState_afterANewerUpdate_showsThat() throws {
    var trace = try Trace()
    guard case .begun = try trace.revise(1, 6, at: 5_000),
      case .waits(let end, milliseconds: 2_000) = try trace.revise(2, 4, showsLast: true, at: 9_000)
    else { return #expect(Bool(false)) }
    #expect(trace.activity?.content?.shownPlace == 6)
    #expect(try trace.revise(3, 3, at: 9_500) == .superseded(number: 0, by: end.number))
    #expect(trace.activity?.content?.shownPlace == 6, "older than what it shows")
    let begun = ActivityState.begin(&trace.activity, number: end.number, now: Self.now + 11_000)
    #expect(begun == .begun(end))
  }

  @Test func redelivered_keepsItsPlace() throws {
    var trace = try Trace()
    #expect(try trace.isTaken(1, sequence: 1))
    #expect(try trace.isTaken(2, sequence: 2))
    #expect(try trace.take(1, sequence: 1) == .superseded(number: 2, by: 3))
    // So many jobs later that it is remembered no longer.
    for job in 3...UInt64(ActivityJobs.countMaximum + 5) { #expect(try trace.isTaken(job, sequence: Int64(job))) }
    #expect(try !trace.isTaken(1, sequence: 1))
  }

  /// One scale: a timestamp is its whole second, a job with neither is as new as its arrival.
  @Test func mixedOrders() throws {
    // Later than the arrivals of the trace.
    let second: Int64 = 1_796_001_000
    var trace = try Trace()
    #expect(try trace.isTaken(1, sequence: second * 1_000_000 + 500_000))
    #expect(try !trace.isTaken(2, timestamp: second - 1), "the second before")
    #expect(try trace.isTaken(3, timestamp: second), "within the second arrival decides")
    #expect(try !trace.isTaken(4, sequence: second * 1_000_000 + 499_999), "the place of the newest does not go back")
    #expect(try trace.isTaken(5, sequence: second * 1_000_000 + 500_000), "as new: the later arrival")
    #expect(try trace.isTaken(6), "it arrives last")
    #expect(try trace.isTaken(7, timestamp: second))
    #expect(try trace.isTaken(8, timestamp: second + 1))
    #expect(try !trace.isTaken(9, timestamp: second))
    #expect(try !trace.isTaken(10, sequence: second * 1_000_000 + 999_999))
    #expect(try trace.isTaken(11, sequence: (second + 1) * 1_000_000))
    let place = (second + 1) * 1_000_000
    func isOlder(_ point: Int64, _ timestamp: Int64?, _ way: JobOrder.Way) -> Bool {
      JobOrder(sequence: nil, timestamp: timestamp, point: point, way: way).isOlder(than: place)
    }
    #expect(!isOlder(place, nil, .returning), "it came then")
    #expect(isOlder(place - 1, nil, .returning), "and waited since")
    #expect(!isOlder(place - 1, nil, .first) && !isOlder(place - 1, nil, .made), "the place may be by another's clock")
    #expect(isOlder(place - 1, second, .first), "it is of the second before")
    for time in [Int64.min, .max] {
      var points = OrderPoints()
      _ = JobOrder(sequence: nil, timestamp: nil, point: points.next(timestamp: time, receivedAt: time), way: .made)
      _ = JobOrder(sequence: nil, timestamp: time, point: time, way: .first)
    }
    for (job, time) in [(12, -1), (13, second * 1_000), (14, .max)] as [(UInt64, Int64)] {
      #expect(try trace.isTaken(job, timestamp: time), "no time at all: its arrival")
    }
    #expect(try trace.isTaken(15, sequence: (second + 2) * 1_000_000), "milliseconds are not taken for seconds")
  }

  /// What was published before its arrival is older, however late it comes.
  @Test func anUnnumberedUpdate_isAsNewAsItsArrival() throws {
    var trace = try Trace()
    #expect(try trace.isTaken(1, sequence: trace.now * 1_000 - 10_000_000))
    #expect(try trace.isTaken(2))
    let arrival = trace.now
    #expect(try !trace.isTaken(3, sequence: arrival * 1_000 - 1))
    #expect(try !trace.isTaken(4, timestamp: arrival / 1_000 - 1))
    #expect(try trace.isTaken(5, sequence: arrival * 1_000 + 1))
    #expect(try trace.isTaken(6), "it comes last")
  }

  /// A token that comes while an end waits for the updates before it is one of the end's devices, and does not begin it.
  @Test func aTokenDoesNotBeginAnEndThatWaits() throws {
    var trace = try Trace()
    guard case .waits(let end, _) = try trace.revise(1, 4, showsLast: true, at: 9_000) else {
      return #expect(Bool(false))
    }
    var member: ActivityMember?
    #expect(
      ActivityState.register(&trace.activity, &member, token: [7], at: Self.now + 9_100, now: Self.now + 9_100)
        == .stored)
    #expect(try trace.revise(2, 3, at: 9_500) == .superseded(number: 0, by: end.number))
    #expect(trace.activity?.content?.shownPlace == 3, "the update is what the end shows")
  }

  @Test func unknown_waitsForItsStart_orIsRefusedForGood() throws {
    var trace = try Trace(isStarted: false)
    #expect(try trace.take(1, sequence: 2, mayWait: true) == .early)
    #expect(trace.activity == nil && trace.jobs == ActivityJobs(), "nothing is stored")
    #expect(throws: ActivityRefusal.unknown) { try trace.take(2, sequence: 3, mayWait: false) }
    #expect(throws: ActivityRefusal.unknown) { try trace.take(2, sequence: 3, mayWait: true) }
    #expect(try trace.leave(3, sequence: 4, mayWait: true) == .early)
    try trace.start()
    #expect(try trace.isTaken(1, sequence: 2))
    #expect(throws: ActivityRefusal.unknown) { try trace.take(2, sequence: 3) }
    // Those of some devices matter to no update; after the end for all an older one comes too late.
    for sequence in [1, 9] as [Int64] {
      let answer = try trace.leave(UInt64(20 + sequence), sequence: sequence)
      guard case .begun = answer else { return #expect(Bool(false), "\(answer)") }
    }
    #expect(try trace.isTaken(4, sequence: 7, isEnd: true))
    let late = try trace.leave(30, sequence: 4)
    guard case .superseded(number: 0, by: _) = late else { return #expect(Bool(false), "\(late)") }
  }

  /// An end without a content state shows the newest one before it, also that of an update that comes behind it, until its pushes begin.
  @Test func anEndWithoutState_showsTheNewestBeforeIt() throws {
    var trace = try Trace()
    guard case .begun = try trace.revise(1, 1, at: 5_000) else { return #expect(Bool(false)) }
    guard case .waits(let end, milliseconds: 2_000) = try trace.revise(2, 4, showsLast: true, at: 9_000) else {
      return #expect(Bool(false), "for the updates before it")
    }
    #expect(trace.activity?.content?.shownPlace == 1)
    for (job, sequence, shown) in [(3, 3, 3), (4, 2, 3)] as [(UInt64, Int64, Int64)] {
      #expect(try trace.revise(job, sequence, at: 9_500) == .superseded(number: 0, by: end.number))
      #expect(trace.activity?.content?.shownPlace == shown)
    }
    #expect(throws: ActivityRefusal.ended) { try trace.revise(5, 5, at: 9_600) }
    let begun = ActivityState.begin(&trace.activity, number: end.number, now: Self.now + 11_000)
    #expect(begun == .begun(end))
    #expect(try trace.revise(6, 3, at: 12_000) == .superseded(number: 0, by: end.number))
    #expect(trace.activity?.content?.shownPlace == 3, "its pushes are on their way")
    let bytes = try #require(trace.activity).encode()
    let again = ActivityState(decoding: bytes.span)
    #expect(again == trace.activity)
  }

  /// Nobody knows which of them is newer: the one that comes last is shown, as where an end has a state of its own.
  @Test func ofTwoUpdatesOfASecondBeforeAnEnd_theLastIsShown() throws {
    var trace = try Trace()
    guard case .begun = try trace.revise(1, second: 0),
      case .waits(let end, _) = try trace.revise(2, second: 1, showsLast: true)
    else { throw JobError(field: "", rule: "the end waits for its timestamp") }
    for job in 3...4 as ClosedRange<UInt64> {
      let before = trace.activity
      #expect(try trace.revise(job, second: 0) == .superseded(number: 0, by: end.number))
      #expect(trace.activity != before, "what it shows is stored with the activity")
    }
  }

  @Test func aKeptEnd_getsTheLastState() {
    func end(_ body: String, _ state: String) -> String {
      String(decoding: ActivityJobWriter.end(Array(body.utf8), showing: Array(state.utf8)), as: UTF8.self)
    }
    let body = #"{"revision":2,"id":"e","payload":{"aps":{"timestamp":7,"event":"end"}},"to":{}}"#
    let shown =
      #"{"revision":2,"id":"e","payload":{"aps":{"content-state":{"a":1},"timestamp":7,"event":"end"}},"to":{}}"#
    #expect(end(body, #"{"a":1}"#) == shown)
    #expect(end(shown, #"{"a":2}"#) == shown, "it has its own")
    #expect(end(body, "") == body && end("x", "{}") == "x")
    #expect(end(body, #"{"a":"\#(String(repeating: "x", count: 4_100))"}"#) == body, "APNs would refuse it")
  }

  /// A place is stored; what an older build stored has none, and any job is newer.
  @Test func coding_readsTheFormBefore() throws {
    var trace = try Trace()
    #expect(try trace.isTaken(1, sequence: 1 << 53))
    let bytes = try #require(trace.activity).encode()
    let again = ActivityState(decoding: bytes.span)
    #expect(again == trace.activity)
    // Form 1 has no places behind the revision of the content: 23 bytes, the start's 8 and 12, the content's 12.
    let old = [1] + bytes[1..<55] + bytes[71...]
    trace.activity = ActivityState(decoding: old.span)
    #expect(trace.activity?.content?.revision == again?.content?.revision && trace.activity?.attributesType == "T")
    #expect(try trace.isTaken(2, sequence: 1))
  }
}
