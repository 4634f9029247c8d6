import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Devices in a real Redis: every index matches the model, whatever happens and whichever worker dies.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct DeviceRegistryTests {
  private enum Operation {
    case register(DeviceRegistration, at: Int64)
    case lose([UInt8], at: Int64, device: String)
    case forgetDevice(String, at: Int64)
    case forgetUser(String, at: Int64)
  }

  /// In the past: what was given up at a time to come is given up now.
  private static func source(_ seed: UInt64) -> RandomRegistrations {
    var source = RandomRegistrations(seed: seed)
    source.start = 1_790_078_400_000
    return source
  }

  /// Each has a different time.
  private func operations(_ source: inout RandomRegistrations, count: Int) -> [Operation] {
    (0..<count).map { index in
      let at = source.time() + Int64(index)
      switch source.below(20) {
      case 0: return .forgetDevice(source.device(), at: at)
      case 1: return .forgetUser(source.user(), at: at)
      case 2, 3:
        return .lose(source.below(2) == 0 ? source.token() : [0x80] + source.token(), at: at, device: source.device())
      default: return .register(source.registration(), at: at)
      }
    }
  }

  private func apply(_ operation: Operation, to model: inout RegistryModel) {
    switch operation {
    case .register(let registration, let at): model.register(registration, at: at)
    case .lose(let token, let at, let device): model.lose(token, at: at, device: device)
    case .forgetDevice(let device, let at): model.forget(device: device, at: at)
    case .forgetUser(let user, let at): model.forget(user: user, at: at)
    }
  }

  /// Starts an operation; `done` is called at its end.
  private func start(
    _ operation: Operation, _ bench: DeviceRegistryBench, by index: Int, ordinals: [String: UInt32],
    done: @escaping (DeviceRegistryFailure?) -> Void
  ) {
    let registry = bench.registries[index]
    func ended<Value>(_ result: Result<Value, DeviceRegistryFailure>) {
      if case .failure(let failure) = result { done(failure) } else { done(nil) }
    }
    switch operation {
    case .register(let registration, let at): registry.register(registration, at: at, in: bench.scope, then: ended)
    case .lose(let token, let at, let device):
      guard let ordinal = ordinals[device] else { return done(nil) }
      registry.lose(token, ordinal: ordinal, at: at, in: bench.scope, then: ended)
    case .forgetDevice(let device, let at): registry.forget(.device(device), at: at, in: bench.scope, then: ended)
    case .forgetUser(let user, let at): registry.forget(.user(user), at: at, in: bench.scope, then: ended)
    }
  }

  private func ordinals(_ bench: DeviceRegistryBench) throws -> [String: UInt32] {
    Dictionary(uniqueKeysWithValues: try bench.dump().records.map { ($1.id, $0) })
  }

  private func play(_ bench: DeviceRegistryBench, seed: UInt64, rounds: Int) throws {
    var source = DeviceRegistryTests.source(seed)
    var model = RegistryModel()
    for round in 0..<rounds {
      for operation in operations(&source, count: 25) {
        apply(operation, to: &model)
        var ordinals: [String: UInt32] = [:]
        if case .lose(_, _, let device) = operation {
          ordinals[device] = try bench.wait {
            bench.registries[0].members(of: .id(device), limit: 1, in: bench.scope, then: $0)
          }.first
        }
        let index = source.below(bench.registries.count)
        let failure: DeviceRegistryFailure? = try bench.wait { then in
          start(operation, bench, by: index, ordinals: ordinals) { then(Result<_, TestFailure>.success($0)) }
        }
        #expect(failure == nil)
      }
      try bench.expect(model, "seed \(seed), round \(round)")
    }
  }

  @Test(arguments: [UInt64(1), 2, 3, 4])
  func oneAfterTheOtherItIsTheModel(seed: UInt64) throws {
    try play(DeviceRegistryBench(url: RedisServer.shared().url, registries: 2), seed: seed, rounds: 6)
  }

  @Test func aClusterHoldsItToo() throws {
    let cluster = try RedisCluster()
    try play(DeviceRegistryBench(url: cluster.url, registries: 2), seed: 5, rounds: 3)
  }

  /// One change for each device, no 410 for a token that moves, and no push-to-start token that moves: so changes of different devices may
  /// run in any order.
  private func group(_ source: inout RandomRegistrations) -> [Operation] {
    var seen: Set<String> = []
    func own(_ token: [UInt8], of device: String) -> [UInt8] {
      [0x80, UInt8(device.split(separator: "-").last ?? "") ?? 0] + token.dropFirst()
    }
    return operations(&source, count: 60).compactMap { operation in
      switch operation {
      case .register(var registration, let at):
        guard seen.insert(registration.device).inserted else { return nil }
        for index in registration.startTokens.indices {
          registration.startTokens[index].token = registration.startTokens[index].token.map {
            own($0, of: registration.device)
          }
        }
        return .register(registration, at: at)
      case .lose(let token, let at, let device):
        guard token.first == 0x80, seen.insert(device).inserted else { return nil }
        return .lose(own(token, of: device), at: at, device: device)
      case .forgetDevice(let device, _): return seen.insert(device).inserted ? operation : nil
      case .forgetUser: return nil
      }
    }
  }

  /// A worker dies at any point of a group of changes; another worker gets the same group.
  @Test(arguments: UInt64(10)..<16)
  func whoDiesLeavesNothingHalf(seed: UInt64) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var source = DeviceRegistryTests.source(seed)
    source.deviceCount = 40
    source.tokenCount = 15
    var model = RegistryModel()
    for round in 0..<4 {
      let ordinals = try ordinals(bench)
      let group = group(&source)
      let dying = bench.registries.count - 1
      for operation in group { start(operation, bench, by: dying, ordinals: ordinals) { _ in } }
      for _ in 0..<source.below(12) { bench.turn() }
      try bench.kill(dying)
      try bench.expectConsistent("seed \(seed), round \(round), after the death")
      try bench.addRegistry()
      for operation in group {
        apply(operation, to: &model)
        let failure: DeviceRegistryFailure? = try bench.wait { then in
          start(operation, bench, by: dying + 1, ordinals: ordinals) { then(Result<_, TestFailure>.success($0)) }
        }
        #expect(failure == nil)
      }
      try bench.expect(model, "seed \(seed), round \(round)")
    }
  }

  /// A worker that starts to forget a user and dies, and another one that repeats it, leave nothing of that user.
  @Test(arguments: [1, 3, 5, 7, 9])
  func aUserIsForgottenThoughSomebodyDies(turns: Int) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var model = RegistryModel()
    try all(0..<150, bench, &model, at: 1_796_000_000_000, plan: "gold")
    bench.registries[0].forget(.user("user"), at: 1_796_000_000_000, in: bench.scope) { _ in }
    for _ in 0..<turns { bench.turn() }
    try bench.kill(0)
    try bench.addRegistry()
    try bench.expectConsistent("after the death")
    _ = try bench.forget(.user("user"), at: 1_796_000_000_000, by: 1)
    #expect(try bench.dump().records.isEmpty)
    try bench.expectConsistent("forgotten")
  }

  /// Many changes of the same few devices by three registries at once: some must retry, and no change is half done.
  @Test(arguments: UInt64(30)..<34)
  func severalAtOnceLeaveNothingHalf(seed: UInt64) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url, registries: 3)
    var source = DeviceRegistryTests.source(seed)
    source.deviceCount = 6
    var failures: [DeviceRegistryFailure] = []
    for _ in 0..<4 {
      let ordinals = try ordinals(bench)
      var left = 0
      for operation in operations(&source, count: 150) {
        left += 1
        start(operation, bench, by: source.below(3), ordinals: ordinals) { failure in
          left -= 1
          if let failure { failures.append(failure) }
        }
      }
      #expect(bench.turn { left == 0 })
      try bench.expectConsistent("seed \(seed)")
    }
    #expect(failures.isEmpty)
    #expect(bench.registries.contains { $0.counters.conflicts > 0 })
  }

  /// What an app does at its start, for 300 devices at two workers: each field is that of its newest registration.
  @Test func partialRegistrationsAtTwoWorkers_loseNothing() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url, registries: 2)
    var random = SeededRandom(seed: 7)
    var model = RegistryModel()
    var all: [(registration: DeviceRegistration, at: Int64)] = []
    for number in 0..<300 {
      let at = 1_796_040_000_000 + Int64(number)
      func add(_ after: Int64, _ change: (inout DeviceRegistration) -> Void) {
        var registration = DeviceRegistration(device: "hwid-\(number)")
        change(&registration)
        model.register(registration, at: at + after)
        all.append((registration, at + after))
      }
      add(0) {
        $0.user = .set("user-\(number)")
        $0.token = .set([1, UInt8(number / 256), UInt8(number % 256)])
      }
      add(1) { $0.tags = [.init(name: "plan", change: .set(.text("gold"))), .init(name: "trial", change: .remove)] }
      add(2) { $0.startTokens = [.init(type: "*", token: [2, UInt8(number / 256), UInt8(number % 256)])] }
      add(3) {
        $0.tags = [.init(name: "starts", change: .increment(1))]
        $0.fingerprint = UInt32(number)
      }
    }
    all.shuffle(using: &random)
    var left = all.count
    var failures: [DeviceRegistryFailure] = []
    for (index, dated) in all.enumerated() {
      bench.registries[index % 2].register(dated.registration, at: dated.at, in: bench.scope) { result in
        left -= 1
        if case .failure(let failure) = result { failures.append(failure) }
      }
      if index % 100 == 99 { bench.turn() }
    }
    #expect(bench.turn { left == 0 } && failures.isEmpty)
    #expect(bench.registries.contains { $0.counters.conflicts > 0 })
    let records = try bench.dump().records.values
    #expect(records.count { $0.token == nil } == 0, "devices without a token")
    #expect(records.count { $0.tags.count != 2 } == 0, "devices without tags")
    try bench.expect(model, "two workers")
  }

  /// Two workers, each with a device that has the same tokens: each token ends with the newer one.
  @Test(arguments: UInt64(40)..<43)
  func tokensOfTwoDevicesAtTwoWorkers_haveOneHolder(seed: UInt64) throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url, registries: 2)
    var random = SeededRandom(seed: seed)
    var left = 0
    var all: [(registration: DeviceRegistration, at: Int64)] = []
    for number in UInt8(0)..<100 {
      for (after, name) in ["old", "new"].enumerated() {
        var registration = DeviceRegistration(device: "\(name)-\(number)")
        registration.user = .set(name)
        registration.token = .set([1, number])
        registration.startTokens = [.init(type: "*", token: [2, number]), .init(type: "Ride", token: [2, number])]
        all.append((registration, 1_796_040_000_000 + Int64(after)))
      }
    }
    for dated in all.shuffled(using: &random) {
      left += 1
      let worker = Int.random(in: 0..<2, using: &random)
      bench.registries[worker].register(dated.registration, at: dated.at, in: bench.scope) { _ in left -= 1 }
      if left % 20 == 0 { bench.turn() }
    }
    #expect(bench.turn { left == 0 })
    try bench.expectConsistent("seed \(seed)")
    for record in try bench.dump().records.values {
      let isNew = record.user == "new"
      #expect((record.token != nil) == isNew && record.startTokens.count == (isNew ? 2 : 0), "\(record.id)")
    }
  }

  /// A record of the build before, which had no set for its push-to-start token, gets one with its next registration.
  @Test func startTokenOfAnOldRecord_isFoundAfterItsNextRegistration() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var old = DeviceRegistration(device: "d")
    old.startTokens = [.init(type: "*", token: [2])]
    #expect(try bench.register(old, at: 1_796_000_000_000) == .added)
    // Version 1: id, time, "*", token, no time before the record's.
    let time: [UInt8] = [0x80, 0xD0, 0xC4, 0xCF, 0xA2, 0x34]
    try bench.redis("HSET", bench.keys.records(of: 0), "0", last: [1, 4, 4, 0x64] + time + [1, 1, 0x2A, 1, 2, 0])
    let set = DeviceSetName(.startToken([2]))
    try bench.redis(
      "HDEL", bench.keys.bucket(of: set), last: (0..<8).map { UInt8(truncatingIfNeeded: set.word >> UInt64($0 * 8)) })
    #expect(try bench.register(old, at: 1_796_000_000_001) == .changed)
    try bench.expectConsistent("read and written again")
    var new = old
    new.device = "e"
    #expect(try bench.register(new, at: 1_796_000_000_002) == .added)
    try bench.expectConsistent("taken over")
  }

  // MARK: - Sets of all sizes

  private func device(_ number: Int, plan: String?) -> DeviceRegistration {
    var device = DeviceRegistration(device: "hwid-\(number)")
    device.user = .set("user")
    device.tags = [.init(name: "plan", change: plan.map { .set(.text($0)) } ?? .remove)]
    return device
  }

  private func all(
    _ numbers: Range<Int>, _ bench: DeviceRegistryBench, _ model: inout RegistryModel, at: Int64, plan: String?
  ) throws {
    var left = numbers.count
    var answers: Set<RegistrationAnswer> = []
    for number in numbers {
      let registration = device(number, plan: plan)
      model.register(registration, at: at)
      bench.registries[0].register(registration, at: at, in: bench.scope) { result in
        left -= 1
        if case .success(let answer) = result { answers.insert(answer) }
      }
    }
    #expect(bench.turn { left == 0 })
    #expect(answers.isSubset(of: [.added, .changed, .unchanged]))
  }

  /// Across the border of two chunks, a set grows from a few members to lists and bitmaps, and shrinks until it is empty.
  @Test func setsChangeTheirFormAndStayThemselves() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var model = RegistryModel()
    let start = OrdinalChunk.count - 600
    try bench.redis("SET", bench.keys.next, String(start))
    // The ordinals before them belong to no device.
    for first in stride(from: 0, to: start, by: 5_000) {
      let members = (first..<min(start, first + 5_000)).flatMap { ["9999999999", String($0)] }
      let free = bench.keys.free
      _ = try bench.wait { bench.client.call(["ZADD", free] + members, key: free, then: $0) }
    }
    let time: Int64 = 1_796_000_000_000
    for (range, plan) in [
      (0..<15, "gold"), (15..<16, "gold"), (16..<512, "gold"), (512..<513, "gold"), (513..<1_200, "gold"),
    ] {
      try all(range, bench, &model, at: time, plan: plan)
      try bench.expect(model, "up to \(range.upperBound)")
    }
    let large = try bench.dump()
    #expect(large.large.count >= 4)
    for range in [0..<343, 343..<345, 345..<590, 590..<1_190, 1_190..<1_200] {
      try all(range, bench, &model, at: time + 1, plan: nil)
      try bench.expect(model, "gone up to \(range.upperBound)")
    }
    let count = try bench.wait { bench.registries[0].count(.everyone, in: bench.scope, then: $0) }
    #expect(count == 1_200)
    // All devices of a user, in parts.
    model.forget(user: "user", at: time + 2)
    #expect(try bench.forget(.user("user"), at: time + 2) == 1_200)
    try bench.expect(model, "forgotten")
    #expect(try bench.dump().sets.isEmpty)
  }

  @Test func membersComeInParts() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var model = RegistryModel()
    for count in [10, 40, 700] {
      try all(0..<count, bench, &model, at: 1_796_000_000_000, plan: "gold")
      var found: [String] = []
      var last: UInt32?
      while true {
        let part = try bench.wait {
          bench.registries[0].entries(of: .tagText("plan", "gold"), after: last, limit: 64, in: bench.scope, then: $0)
        }
        guard let end = part.last else { break }
        #expect(part.count <= 64 && part.map(\.ordinal) == part.map(\.ordinal).sorted())
        found += part.map(\.record.id)
        last = end.ordinal
      }
      #expect(found.count == count && Set(found) == Set(model.devices.keys))
    }
  }

  // MARK: - Special cases

  @Test func aWordWhoseNumberAnotherHasIsWrittenOut() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    let number = try #require(DeviceWords().number(of: "subscription"))
    let field = (0..<4).map { UInt8(truncatingIfNeeded: number >> UInt32($0 * 8)) }
    _ = try bench.wait { then in
      var arguments = RedisArguments()
      arguments.append(field)
      bench.client.run(
        LuaScript("return redis.call('HSET', KEYS[1], ARGV[1], 'somethingelse')"), keys: [bench.keys.words], arguments,
        then: then)
    }
    var model = RegistryModel()
    var registration = device(1, plan: "gold")
    registration.tags.append(.init(name: "subscription", change: .set(.flag(true))))
    model.register(registration, at: 1_796_000_000_000)
    #expect(try bench.register(registration, at: 1_796_000_000_000) == .added)
    try bench.expect(model, "a clash")
  }

  /// New words of one script with the same number, and one of them with that of a word which this process does not know yet.
  @Test func newWordsWithOneNumber() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url, registries: 2)
    var model = RegistryModel()
    func registration(_ index: Int, _ tag: String) -> DeviceRegistration {
      var registration = device(index, plan: "gold")
      registration.tags.append(.init(name: tag, change: .set(.text(tag))))
      return registration
    }
    func register(_ all: [(Int, String)], by registry: Int) throws {
      var answers: [RegistrationAnswer] = []
      for (index, tag) in all {
        let registration = registration(index, tag)
        model.register(registration, at: 1_796_000_000_000)
        bench.registries[registry].register(registration, at: 1_796_000_000_000, in: bench.scope) {
          if case .success(let answer) = $0 { answers.append(answer) }
        }
      }
      #expect(bench.turn { answers.count == all.count } && answers.allSatisfy { $0 == .added })
    }
    try register([(1, "tag6667"), (2, "tag182972"), (3, "tag34910")], by: 0)
    try register([(4, "tag64504"), (5, "tag34910"), (6, "tag182972")], by: 1)
    try bench.expect(model, "words with one number")
  }

  /// Their ids and tags are equal canonically alone.
  @Test func devicesOfTheSameCanonicalText_areTwo() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    var left = 2
    for (index, id) in ["\u{E9}-dev", "e\u{301}-dev"].enumerated() {
      var registration = DeviceRegistration(device: id)
      registration.token = .set([1, UInt8(index)])
      registration.tags = [.init(name: id, change: .set(.text(id)))]
      bench.registries[0].register(registration, at: 1_796_000_000_000, in: bench.scope) { _ in left -= 1 }
    }
    #expect(bench.turn { left == 0 })
    let records = try bench.dump().records.values
    #expect(records.count == 2 && Set(records.map { $0.token?.bytes }).count == 2)
    for record in records {
      let entries = try bench.wait {
        bench.registries[0].entries(of: .tagText(record.id, record.id), limit: 9, in: bench.scope, then: $0)
      }
      #expect(entries.map(\.record.token) == [record.token])
    }
    #expect(try bench.forget(.device("\u{E9}-dev"), at: 1_796_000_000_001) == 1)
    #expect(try bench.dump().records.values.map { Array($0.id.utf8.prefix(1)) } == [[0x65]])
  }

  @Test func aRecordThatCannotBeReadIsLeftAlone() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    #expect(try bench.register(device(1, plan: "gold"), at: 1_796_000_000_000) == .added)
    try bench.redis("HSET", bench.keys.records(of: 0), "0", last: [9, 9, 9])
    #expect(throws: DeviceRegistryFailure.self) { try bench.register(device(1, plan: "silver"), at: 1_796_000_000_001) }
    guard case .array(let values) = try bench.redis("HVALS", bench.keys.records(of: 0)) else {
      throw TestFailure("no records")
    }
    #expect(values == [.bulk([9, 9, 9])])
  }

  @Test func anEmptiedRedisIsFilledAgain() throws {
    let server = try RedisServer()
    let bench = try DeviceRegistryBench(url: server.url)
    var model = RegistryModel()
    try all(0..<40, bench, &model, at: 1_796_000_000_000, plan: "gold")
    try server.cli(["FLUSHALL"])
    try server.cli(["SCRIPT", "FLUSH"])
    model = RegistryModel()
    try all(20..<60, bench, &model, at: 1_796_000_000_000, plan: "gold")
    try bench.expect(model, "refilled")
    let scopes = try bench.wait { bench.registries[0].scopes(then: $0) }
    #expect(scopes == [bench.scope])
  }

  /// A freed ordinal rests for a day, and is then given to another device.
  @Test func ordinalsRest() throws {
    let bench = try DeviceRegistryBench(url: RedisServer.shared().url)
    #expect(try bench.register(device(1, plan: nil), at: 1_796_000_000_000) == .added)
    #expect(try bench.forget(.device("hwid-1"), at: 1_796_000_000_001) == 1)
    #expect(try bench.register(device(1, plan: nil), at: 1_796_000_000_001) == .forgotten)
    #expect(try bench.register(device(2, plan: nil), at: 1_796_000_000_000) == .added)
    #expect(try bench.dump().records.keys.sorted() == [2])
    // The ordinal of the forgotten device, and the unused one that was reserved for it.
    for ordinal in ["0", "1"] { try bench.redis("ZADD", bench.keys.free, "1000", ordinal) }
    #expect(try bench.register(device(3, plan: nil), at: 1_796_000_000_000) == .added)
    #expect(try bench.register(device(1, plan: nil), at: 1_796_000_000_002) == .added)
    #expect(try bench.dump().records.mapValues(\.id) == [0: "hwid-3", 1: "hwid-1", 2: "hwid-2"])
  }
}
