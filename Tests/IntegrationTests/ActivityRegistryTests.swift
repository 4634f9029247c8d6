import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Activities over a real Redis.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ActivityRegistryTests {
  private static let payloads = [
    "{\"aps\":{\"event\":\"start\",\"attributes-type\":\"Ride\",\"content-state\":{\"eta\":9}}}",
    "{\"aps\":{\"event\":\"start\",\"attributes-type\":\"Other\"}}",
    "{\"aps\":{\"event\":\"update\",\"content-state\":{\"eta\":5}}}",
    "{\"aps\":{\"event\":\"update\",\"content-state\":{\"eta\":4}}}",
    "{\"aps\":{\"event\":\"end\"}}",
  ]

  private func payload(_ index: Int) throws -> ActivityPayload {
    try ActivityPayload(Array(ActivityRegistryTests.payloads[index].utf8))
  }

  /// Ordinals of several chunks, and on both sides of their borders.
  private static let ordinals: [UInt32] = [
    0, 1, 65_279, 65_280, 65_281, 9_999_999, UInt32(OrdinalChunk.ordinalsMaximum - 1),
  ]

  private func call(_ random: inout SeededRandom, _ ids: [ActivityID], now: Int64) throws -> ActivityModel.Call {
    let id = ids[Int(random.next() % UInt64(ids.count))]
    let job = random.next() % 30
    let ordinal = ActivityRegistryTests.ordinals[Int(random.next() % 7)]
    let some = ActivityRegistryTests.ordinals.filter { _ in random.next() % 2 == 0 }
    let token = random.next() % 6 == 0 ? [] : [UInt8](repeating: UInt8(random.next() % 3), count: 40)
    let at = now - Int64(random.next() % 3_000)
    switch random.next() % 14 {
    case 0: return .start(id, payload: try payload(random.next() % 8 == 0 ? 1 : 0), job: job)
    case 1, 2, 3, 4:
      let payload = try payload(random.next() % 12 == 0 ? 4 : 2 + Int(random.next() % 2))
      return .revise(id, payload: payload, order: order(&random, now: now), job: job, mayWait: random.next() % 2 == 0)
    case 5 where random.next() % 4 == 0:
      return .leave(
        id, ordinals: some, order: order(&random, now: now), job: job, mayWait: random.next() % 2 == 0)
    case 5, 6, 7, 8: return .register(id, ordinal: ordinal, token: token, at: at)
    case 9, 10:
      let push = ActivityState.Push(
        revision: UInt32(random.next() % 12), isLate: random.next() % 4 == 0, isLeave: random.next() % 9 == 0)
      return .resolve(id, push, ordinals: some)
    case 11: return .resolveStart(id, job: job, ordinals: some)
    case 12 where random.next() % 4 == 0: return .forget(ordinal: ordinal)
    case 12: return .startsEnded(id, job: job, ordinals: some, haveReached: some.map { $0 % 2 == 0 })
    default: return .unregistered(id, ordinal: ordinal, token: token, at: at)
    }
  }

  /// As its producer said it: in a sequence, in a second, or not at all. Some jobs come seconds late.
  private func order(_ random: inout SeededRandom, now: Int64) -> JobOrder {
    let at = now - Int64(random.next() % 4) * 900
    switch random.next() % 4 {
    case 0: return JobOrder(sequence: at * 1_000 + Int64(random.next() % 3), timestamp: nil, point: 0)
    case 1: return JobOrder(sequence: nil, timestamp: at / 1_000, point: at * 1_000)
    case 2: return JobOrder(sequence: nil, timestamp: nil, point: at * 1_000, way: .returning)
    default: return JobOrder(sequence: nil, timestamp: nil, point: now * 1_000)
    }
  }

  /// - Parameter tells: a difference is a mistake: it is shown.
  private func compare(
    _ bench: ActivityRegistryBench, _ model: ActivityModel, _ ids: [ActivityID], tells: Bool = true
  ) throws -> Bool {
    for id in ids {
      let snapshot = model.snapshot(id)
      let shown = try bench.show(id)
      guard shown == snapshot else {
        if tells {
          #expect(shown?.activity == snapshot?.activity)
          #expect(shown?.members == snapshot?.members)
        }
        return false
      }
      let live = snapshot?.members.filter { $0.value.status == .live }.keys.sorted() ?? []
      #expect(try bench.live(id, limit: 2) == live)
    }
    return true
  }

  /// The app's hardware id changed while its activity ran: one phone, two devices, at two workers.
  @Test func updateTokenOfTwoDevices_isTheNewerOnes() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url, registries: 2)
    var random = SeededRandom(seed: 3)
    let (now, scope) = (bench.now, bench.scope)
    let ids = try (0..<60).map { try #require(ActivityID("ride-\($0)")) }
    var left = 0
    var failures: [ActivityRegistryFailure] = []
    for (number, id) in ids.enumerated() {
      // The newer one is the first, or the second, or both have one time.
      for ordinal in (number % 2 == 0 ? [0, 1] : [1, 0]) as [UInt32] {
        left += 1
        let at = now - 1_000 + Int64(ordinal) * [10, -10, 0][number % 3]
        bench.registries[Int.random(in: 0..<2, using: &random)].register(
          id, in: scope, ordinal: ordinal, token: [7, UInt8(number)], at: at
        ) { result in
          left -= 1
          if case .failure(let failure) = result { failures.append(failure) }
        }
        if number % 4 == 0 { _ = bench.turn { left == 0 } }
      }
    }
    #expect(bench.turn { left == 0 } && failures.isEmpty)
    for (number, id) in ids.enumerated() {
      #expect(try bench.live(id, limit: 9) == [[1, 0, 1][number % 3]], "\(id): one phone gets each update twice")
    }
    // It goes back, with a new token for the other one.
    let id = ids[0]
    _ = try bench.wait { bench.registries[0].register(id, in: scope, ordinal: 0, token: [7, 0], at: now, then: $0) }
    #expect(try bench.live(id, limit: 9) == [0])
    _ = try bench.wait { bench.registries[1].register(id, in: scope, ordinal: 1, token: [8, 0], at: now, then: $0) }
    #expect(try bench.live(id, limit: 9) == [0, 1])
  }

  @Test(arguments: 0..<3)
  func itIsLikeItsModel(round: Int) throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url)
    var random = SeededRandom(seed: UInt64(round))
    for world in 0..<6 {
      var model = ActivityModel()
      let ids = try (0..<2).map { try #require(ActivityID("ride:\(world):é{\($0)}")) }
      for step in 0..<250 {
        bench.now += Int64(random.next() % 700)
        if random.next() % 150 == 0 { bench.now += ActivityState.lifeMilliseconds }
        let call = try call(&random, ids, now: bench.now)
        let expected = model.perform(call, now: bench.now)
        var answer: String?
        bench.registries[0].perform(call, in: bench.scope) { answer = $0 }
        try #require(bench.turn { answer != nil })
        #expect(answer == expected, "round \(round), world \(world), step \(step): \(call)")
        if step % 10 == 0 { #expect(try compare(bench, model, ids)) }
      }
      #expect(try compare(bench, model, ids))
    }
  }

  @Test func whoeverDiesHasDoneAllOrNothing() throws {
    let server = try RedisServer()
    defer { server.stop() }
    let bench = try ActivityRegistryBench(url: server.url)
    var random = SeededRandom(seed: 11)
    var model = ActivityModel()
    let ids = [try #require(ActivityID("ride"))]
    var done = 0
    var undone = 0
    // Of an unknown activity, nothing shows whether a refusal was stored.
    let start = ActivityModel.Call.start(ids[0], payload: try payload(0), job: 1_000)
    let expected = model.perform(start, now: bench.now)
    var answer: String?
    bench.registries[0].perform(start, in: bench.scope) { answer = $0 }
    try #require(bench.turn { answer == expected })
    for step in 0..<400 {
      bench.now += Int64(random.next() % 700)
      let call = try call(&random, ids, now: bench.now)
      guard step % 2 == 0 else {
        _ = model.perform(call, now: bench.now)
        var answer: String?
        bench.registries[0].perform(call, in: bench.scope) { answer = $0 }
        try #require(bench.turn { answer != nil })
        continue
      }
      let registry = try bench.addRegistry()
      var isAnswered = false
      registry.perform(call, in: bench.scope) { _ in isAnswered = true }
      for _ in 0..<random.next() % 6 where !isAnswered { bench.turn() }
      try bench.killLast()
      var after = model
      _ = after.perform(call, now: bench.now)
      guard after != model else { continue }
      if try compare(bench, after, ids, tells: false) {
        model = after
        done += 1
      } else {
        #expect(try compare(bench, model, ids), "step \(step): \(call)")
        undone += 1
      }
    }
    #expect(done > 5 && undone > 5, "\(done) done, \(undone) not")
  }

  /// Two workers have a copy of an update each while the activity becomes known: both get the revision, or none.
  @Test func copiesHaveOneAnswer() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url, registries: 3)
    var random = SeededRandom(seed: 12)
    let (start, update) = (try payload(0), try payload(2))
    let edit: (ActivityRevision, [UInt8]) throws(JobError) -> [UInt8] = { ActivityModel.body($0, $1) }
    var refused = 0
    for round in 0..<150 {
      let id = try #require(ActivityID("ride-\(round)"))
      var answers: [UInt64: [String]] = [:]
      var open = 0
      var calls: [() -> Void] = []
      for (job, worker) in [(1, 0), (1, 1), (2, 1), (2, 2)] as [(UInt64, Int)] {
        calls.append {
          bench.registries[worker].revise(id, in: bench.scope, payload: update, job: job, edit: edit) { result in
            open -= 1
            switch result {
            case .success(let revised):
              answers[job, default: []].append(revised.body.isEmpty ? "superseded" : "sent")
            case .failure(let failure): answers[job, default: []].append("\(failure)")
            }
          }
        }
      }
      calls.append {
        bench.registries[2].start(id, in: bench.scope, payload: start, job: 9) { result in
          open -= 1
          if case .failure(let failure) = result { Issue.record("\(failure)") }
        }
      }
      calls.shuffle(using: &random)
      for call in calls {
        open += 1
        call()
        for _ in 0..<random.next() % 4 { bench.turn() }
      }
      try #require(bench.turn { open == 0 })
      for job in [1, 2] as [UInt64] {
        let isRefused = answers[job]?.map { $0.contains("is not known") } ?? []
        #expect(isRefused.count == 2 && Set(isRefused).count == 1, "round \(round), job \(job): \(answers)")
        if isRefused.contains(true) { refused += 1 }
      }
    }
    #expect(refused > 20 && refused < 280, "\(refused)")
  }

  /// Concurrent updates, registrations and pages from several workers: no member is missed, in any order.
  @Test(arguments: 0..<4)
  func nobodyIsMissed(round: Int) throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url, registries: 4)
    var random = SeededRandom(seed: UInt64(100 + round))
    let id = try #require(ActivityID("match-\(round)"))
    let scope = bench.scope
    var open = 0
    var failures: [ActivityRegistryFailure] = []
    func next() -> ActivityRegistry { bench.registries[Int(random.next() % 4)] }
    func take<Value>(_ result: Result<Value, ActivityRegistryFailure>, _ then: (Value) -> Void) {
      open -= 1
      switch result {
      case .success(let value): then(value)
      case .failure(let failure): failures.append(failure)
      }
    }
    func pages(_ revision: ActivityRevision, after: UInt32?) {
      open += 1
      next().live(id, in: scope, after: after, limit: 20) { result in
        take(result) { live in
          if live.hasMore { pages(revision, after: live.ordinals.last) }
          guard !live.ordinals.isEmpty else { return }
          open += 1
          next().resolve(.init(revision: revision.number), of: id, in: scope, to: live.ordinals) { take($0) { _ in } }
        }
      }
    }
    let update = try payload(2)
    func revise(_ job: UInt64) {
      open += 1
      let edit: (ActivityRevision, [UInt8]) throws(JobError) -> [UInt8] = { ActivityModel.body($0, $1) }
      next().revise(id, in: scope, payload: update, job: job, edit: edit) { result in
        take(result) { revised in
          switch revised.answer {
          case .begun(let revision): pages(revision, after: nil)
          case .waits(_, let milliseconds):
            bench.now += milliseconds
            revise(job)
          case .superseded, .early: break
          }
        }
      }
    }
    let start = try payload(0)
    _ = try bench.wait { next().start(id, in: scope, payload: start, job: 1_000, then: $0) }
    for ordinal in 0..<UInt32(120) {
      open += 1
      next().register(
        id, in: scope, ordinal: ordinal * 40_000, token: [UInt8(truncatingIfNeeded: ordinal)], at: bench.now
      ) { take($0) { _ in } }
      guard ordinal % 20 == 10 else { continue }
      bench.turn()
      bench.now += 1_000
      revise(UInt64(ordinal))
    }
    try #require(bench.turn { open == 0 })
    #expect(failures.isEmpty, "\(failures)")
    let snapshot = try #require(try bench.show(id))
    let newest = snapshot.activity.content?.revision.number
    #expect(snapshot.members.count == 120 && newest != nil)
    for (ordinal, member) in snapshot.members { #expect(member.sent == newest, "device \(ordinal)") }
  }

  /// Its end may not have been sent yet, and APNs keeps it for devices that are offline.
  @Test func channelIsInUse_asLongAsItsActivityIsKnown() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url)
    let (id, channel) = (try #require(ActivityID("ride")), try #require(ChannelID(text: "dHN0LXNyY2gtY2hubA==")))
    let registry = bench.registries[0]
    let (start, end) = (try payload(0), try payload(4))
    let begun = bench.now
    _ = try bench.wait { registry.start(id, in: bench.scope, payload: start, way: .channel(channel), job: 1, then: $0) }
    func channels() throws -> Set<ChannelID> { try bench.wait { registry.channelsInUse(bench.scope, then: $0) } }
    #expect(try channels() == [channel])
    bench.now += 5_000
    let answer = try bench.wait {
      registry.revise(id, in: bench.scope, payload: end, job: 2, edit: { ActivityModel.body($0, $1) }, then: $0)
    }.answer
    guard case .begun = answer else { throw TestFailure("it is due") }
    #expect(try channels() == [channel])
    bench.now = begun + ActivityState.memoryMilliseconds - 1
    #expect(try channels() == [channel])
    bench.now += 1
    #expect(try channels().isEmpty)
  }

  /// Of updates that were cancelled one after the other the activity goes back to the last one that was not.
  @Test func cancelledUpdates_areTakenBack() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url)
    let registry = bench.registries[0]
    let id = try #require(ActivityID("ride"))
    let start = try payload(0)
    _ = try bench.wait { registry.start(id, in: bench.scope, payload: start, job: 1, then: $0) }
    func text(_ number: Int) -> String {
      #"{"aps":{"timestamp":1,"event":"update","content-state":{"n":\#(number)}}}"#
    }
    func update(_ number: Int) throws {
      bench.now += 2_000
      let payload = try ActivityPayload(Array(text(number).utf8))
      let edit = { (revision: ActivityRevision, _: [UInt8]) in
        Array(#"{"revision":\#(revision.number),"id":"u\#(number)","payload":\#(text(number))}"#.utf8)
      }
      _ = try bench.wait {
        registry.revise(id, in: bench.scope, payload: payload, job: UInt64(number), edit: edit, then: $0)
      }
    }
    func body() throws -> String {
      let newest = try bench.wait { registry.newest(id, in: bench.scope, then: $0) }
      return String(decoding: newest?.body ?? [], as: UTF8.self)
    }
    func cancel(_ number: Int, mayReach: Bool = false) throws -> ActivityRegistry.TakenBack {
      try bench.wait {
        registry.takeBack(
          id, in: bench.scope, number: UInt32(number), mayReach: mayReach, isLive: true, isTaken: false,
          isJob: { String(decoding: $0, as: UTF8.self).contains(#""id":"u\#(number)""#) }, then: $0)
      }
    }
    for number in 2...5 { try update(number) }
    #expect(try cancel(5, mayReach: true) == .stays(isEnd: false) && body().contains(#""id":"u5""#))
    #expect(try cancel(4) == .isOlder && body().contains(#""id":"u5""#))
    #expect(try cancel(5) == .restored && cancel(5) == .restored, "it may be asked again")
    let restored = try body()
    #expect(restored.hasPrefix(#"{"revision":6,"id":"u3","payload":{"aps":{"timestamp":"#), "\(restored)")
    #expect(restored.contains(#""content-state":{"n":3}"#) && !restored.contains(#""timestamp":1,"#))
    #expect(try cancel(3) == .restored && body().hasPrefix(#"{"revision":7,"id":"u2","#))
    try update(8)
    #expect(try cancel(8) == .restored && body().hasPrefix(#"{"revision":9,"id":"u2","#))
    #expect(try cancel(2) == .stays(isEnd: false), "what was before it is not kept any more")
  }

  /// The oldest one is behind what is read at once.
  @Test func channelsOfManyActivities_areInUse() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url)
    let registry = bench.registries[0]
    let channel = try #require(ChannelID(text: "dHN0LXNyY2gtY2hubA=="))
    let start = try payload(0)
    for number in 0...500 {
      let id = try #require(ActivityID("ride-\(number)"))
      bench.now += 1
      _ = try bench.wait {
        registry.start(
          id, in: bench.scope, payload: start, way: number == 0 ? .channel(channel) : .tokens, job: 1, then: $0)
      }
    }
    #expect(try bench.wait { registry.channelsInUse(bench.scope, then: $0) } == [channel])
  }

  @Test func itsKeysEndAndItsListForgets() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url)
    let ids = try (0..<3).map { try #require(ActivityID("ride-\($0)")) }
    let start = try payload(0)
    for id in ids {
      bench.now += 1_000
      _ = try bench.wait { bench.registries[0].start(id, in: bench.scope, payload: start, job: 1, then: $0) }
      _ = try bench.wait {
        bench.registries[0].resolveStart(of: id, in: bench.scope, job: 1, to: [7, 70_000], then: $0)
      }
    }
    let list = try bench.wait { bench.registries[0].list(bench.scope, limit: 2, then: $0) }
    #expect(list.map(\.id) == [ids[2], ids[1]] && list[0].activity.attributesType == "Ride")
    let keys = try bench.command(["KEYS", bench.prefix + "*"])
    guard case .array(let names) = keys else { throw TestFailure("\(keys)") }
    #expect(names.count == 1 + 3 * 4 + 2, "and the memberships of both devices")
    for name in names {
      guard case .integer(let rest) = try bench.command(["PTTL", name.text ?? ""]) else { throw TestFailure("no time") }
      #expect(name.text?.hasSuffix("a:index") == true ? rest == -1 : rest > 11 * 3_600_000, "\(name)")
    }
    bench.now += ActivityState.memoryMilliseconds
    #expect(try bench.wait { bench.registries[0].list(bench.scope, limit: 9, then: $0) }.isEmpty)
    let late = try #require(ActivityID("late"))
    _ = try bench.wait { bench.registries[0].start(late, in: bench.scope, payload: start, job: 2, then: $0) }
    #expect(
      try bench.command(["ZCARD", names.compactMap(\.text).first { $0.hasSuffix("a:index") } ?? ""]) == .integer(1))
  }

  /// Redis was rewound, or a day has passed: another device has the ordinal of a member.
  @Test func member_isNoOtherDevice() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url)
    let id = try #require(ActivityID("ride"))
    let (registry, scope) = (bench.registries[0], bench.scope)
    let start = try payload(0)
    _ = try bench.wait { registry.start(id, in: scope, payload: start, job: 1, then: $0) }
    func register(device: UInt32, _ token: UInt8) throws {
      _ = try bench.wait {
        registry.register(id, in: scope, ordinal: 7, device: device, token: [token], at: bench.now, then: $0)
      }
    }
    func member() throws -> ActivityMember? { try bench.show(id)?.members[7] }
    func resolve(device: UInt32) throws -> [ActivityState.Resolved] {
      try bench.wait {
        registry.resolve(ActivityState.Push(revision: 1), of: id, in: scope, to: [7], devices: [device], then: $0)
      }
    }
    try register(device: 11, 1)
    #expect(try member()?.device == 11)
    #expect(try resolve(device: 22) == [.skipped(.over)])
    #expect(try member()?.token == [1], "it stays until another takes its place")
    guard case .send(let token, _) = try resolve(device: 11)[0] else { throw TestFailure("it is no member") }
    #expect(token == [1])
    let started = try bench.wait { registry.resolveStart(of: id, in: scope, job: 1, to: [7], devices: [22], then: $0) }
    #expect(started == [.send])
    #expect(try member()?.device == 22 && member()?.token == [])
    // A member of the build before is any device's.
    _ = try bench.wait { registry.forget([7], of: id, in: scope, then: $0) }
    try register(device: 0, 3)
    #expect(try member()?.device == 0)
    guard case .send = try resolve(device: 33)[0] else { throw TestFailure("it is no member") }
    #expect(try member()?.device == 33)
  }

  @Test func foreignBytesAreAnError() throws {
    let bench = try ActivityRegistryBench(url: RedisServer.shared().url)
    let id = try #require(ActivityID("ride"))
    let key = "\(bench.prefix){devices:sandbox:com.example.app}:a:h:ride"
    _ = try bench.command(["HSET", key, "s", "nonsense"])
    let failure = #expect(throws: ActivityRegistryFailure.self) {
      try bench.wait { bench.registries[0].resolveStart(of: id, in: bench.scope, job: 1, to: [7], then: $0) }
    }
    #expect("\(failure as Any)".contains("holds no activity of this version"))
    _ = try bench.command(["DEL", key])
    _ = try bench.command(["SET", key, "nonsense"])
    #expect(throws: ActivityRegistryFailure.self) { try bench.show(id) }
  }

  @Test func inAClusterToo() throws {
    let cluster = try RedisCluster()
    defer { for master in cluster.masters { master.stop() } }
    let bench = try ActivityRegistryBench(url: cluster.url)
    var random = SeededRandom(seed: 21)
    var model = ActivityModel()
    let ids = [try #require(ActivityID("ride"))]
    for _ in 0..<100 {
      bench.now += Int64(random.next() % 700)
      let call = try call(&random, ids, now: bench.now)
      let expected = model.perform(call, now: bench.now)
      var answer: String?
      bench.registries[0].perform(call, in: bench.scope) { answer = $0 }
      try #require(bench.turn { answer != nil })
      #expect(answer == expected)
    }
    #expect(try compare(bench, model, ids))
  }
}
