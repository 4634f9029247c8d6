import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// An activity over a real Redis and a real RabbitMQ: jobs get revisions, pages find their devices, late tokens get their push.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ActivityWayTests {
  private static let start = #"""
    {"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{"eta":9},"alert":{"title":"t","body":"b"}}}
    """#
  private static let update = #"{"aps":{"event":"update","content-state":{"eta":5}}}"#

  private func job(_ id: String, to: String, payload: String, _ more: String = "") -> String {
    #"{"id":"\#(id)","app":"com.example.app","environment":"sandbox","push_type":"liveactivity","to":\#(to),"payload":\#(payload)\#(more)}"#
  }

  /// The id of a late push is longer than AMQP takes: it is cut between two characters.
  @Test func lateMessagesID_isWholeCharacters() throws {
    let world = try ActivityWay(idAttribute: "herald.id")
    defer { world.close() }
    let device = String(repeating: "é", count: 64)
    try world.register("d1", startToken: "aa01aa01")
    try world.register(device, startToken: nil)
    let id = String(repeating: "u", count: 128)
    _ = try world.publishedBody(
      job("s1", to: #"{"devices":["d1"]}"#, payload: Self.start, #","activity":"ride-17""#))
    _ = try world.publishedBody(job(id, to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.token(device, "cc02cc02") == .changed)
    let late = try world.queued()
    #expect(late.map(\.id) == ["\(id)/late/\(String(repeating: "é", count: 60))"])
    #expect(try world.resolve(late.first?.text ?? "") == [device: "cc02cc02"])
  }

  /// A start for one device, as a body that goes out.
  private func start(_ id: String, _ device: String, in world: ActivityWay) throws -> String {
    try world.publishedBody(
      job(id, to: #"{"devices":["\#(device)"]}"#, payload: Self.start, #","activity":"ride-17""#))
  }

  /// An app gives its device another id between two starts of one activity, and within one: the phone is started once.
  @Test func startTokenThatMoves_isNotStartedTwice() throws {
    let world = try ActivityWay(idAttribute: "herald.id")
    defer { world.close() }
    try world.register("old", startToken: "aa01aa01")
    func start(_ id: String, _ device: String) throws -> String { try self.start(id, device, in: world) }
    let first = try start("s1", "old")
    #expect(try world.page(first, 0) == ["old": "aa01aa01"])
    world.now += 1
    try world.register("new", startToken: "aa01aa01")
    #expect(try world.page(first, 1).isEmpty, "a later page of the same start")
    #expect(try world.page(start("s2", "new"), 0).isEmpty, "another start")
    // Once more, and to a device that is known already.
    try world.register("third", startToken: "aa02aa02")
    world.now += 1
    try world.register("third", startToken: "aa01aa01")
    #expect(try world.page(start("s3", "third"), 0).isEmpty)
    // Its own activities reach it.
    #expect(try world.token("third", "cc03cc03") == .changed)
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(updated, 0, live: true) == ["third": "cc03cc03"])
  }

  /// Its start may still come to nothing: then all devices are free.
  @Test(arguments: [false, true]) func startTokenThatMovesMeanwhile_endsAsItsStart(hasReached: Bool) throws {
    let world = try ActivityWay(idAttribute: "herald.id")
    defer { world.close() }
    try world.register("old", startToken: "aa01aa01")
    func start(_ id: String, _ device: String) throws -> String { try self.start(id, device, in: world) }
    #expect(try world.page(start("s1", "old"), 0) == ["old": "aa01aa01"])
    for device in ["new", "newest"] {
      world.now += 1
      try world.register(device, startToken: "aa01aa01")
    }
    #expect(try world.page(start("s2", "newest"), 0).isEmpty, "it may be on its way")
    try world.startEnded("s1", ordinal: 0, hasReached: hasReached)
    #expect(try world.page(start("s3", "newest"), 0) == (hasReached ? [:] : ["newest": "aa01aa01"]))
    try world.startEnded("s1", ordinal: 0, hasReached: false)
    #expect(try world.page(start("s4", "newest"), 0).isEmpty, "told twice")
  }

  /// A copy of a start that ended long ago comes again, and its pages are looked up for their outcomes.
  @Test func aStartWhoseTimeIsOver_leavesItsDeviceToAnother() throws {
    let world = try ActivityWay(idAttribute: "herald.id")
    defer { world.close() }
    try world.register("d1", startToken: "aa01aa01")
    let first = try start("s1", "d1", in: world)
    #expect(try world.page(first, 0, isOver: true) == ["d1": "aa01aa01"])
    let second = try start("s2", "d1", in: world)
    #expect(try world.page(second, 0) == ["d1": "aa01aa01"])
    try world.startEnded("s1", ordinal: 0, hasReached: true)
    #expect(try world.page(second, 0) == ["d1": "aa01aa01"], "the end of s1 is not that of s2")
    #expect(try world.page(first, 0, isOver: true).isEmpty)
  }

  @Test func fromStartToEnd() throws {
    let world = try ActivityWay(idAttribute: "herald.id")
    defer { world.close() }
    for (device, start) in [("d1", "aa01aa01"), ("d2", "aa02aa02"), ("d3", nil)] as [(String, String?)] {
      try world.register(device, startToken: start)
    }
    let startJob = job("s1", to: #"{"devices":["d1","d2","d3"]}"#, payload: Self.start, #","activity":"ride-17""#)
    let started = try world.publishedBody(startJob)
    #expect(started.contains(#""attributes":{"herald":{"id":"ride-17"}}"#) && started.contains(#""revision":1"#))
    #expect(try world.page(started, 0) == ["d1": "aa01aa01", "d2": "aa02aa02"], "d3 has no start token")
    #expect(try world.page(started, 0) == ["d1": "aa01aa01", "d2": "aa02aa02"], "the page came again")
    // Another job for all devices: none is started twice.
    let more = job("s2", to: #"{"devices":["d1","d2","d3"]}"#, payload: Self.start, #","activity":"ride-17""#)
    #expect(try world.page(world.publishedBody(more), 0).isEmpty)
    let other = Self.start.replacing("9", with: "8")
    let refusal = try world.take(job("s3", to: #"{"users":["u"]}"#, payload: other, #","activity":"ride-17""#))
    guard case .refused(let error) = refusal else { throw TestFailure("\(refusal)") }
    #expect(error.field == "activity" && error.rule.contains("was started with another payload"))

    // One registers in time, one late.
    #expect(try world.token("d1", "cc01cc01") == .changed)
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(updated.contains(#""priority":5"#) && updated.contains(#""activity":"ride-17""#))
    #expect(try world.page(updated, 0, live: true) == ["d1": "cc01cc01"])
    #expect(try world.queued().isEmpty, "no token was late")
    #expect(try world.token("d2", "cc02cc02") == .changed)
    let late = try world.queued()
    try #require(late.count == 1)
    #expect(late[0].id == "u1/late/d2" && late[0].text.contains(#""eta":5"#))
    #expect(try world.resolve(late[0].text) == ["d2": "cc02cc02"])
    #expect(try world.token("d2", "cc02cc02") == .changed, "the app repeats the token")
    #expect(try world.queued().isEmpty)

    // The end shows the last state; d1 is gone.
    try world.gone(updated, device: "d1", "cc01cc01")
    let ended = try world.publishedBody(
      job("e1", to: #"{"activity":"ride-17"}"#, payload: #"{"aps":{"event":"end"}}"#))
    #expect(ended.contains(#""content-state":{"eta":5}"#) && ended.contains(#""priority":10"#))
    #expect(try world.page(ended, 0, live: true) == ["d2": "cc02cc02"])
    guard case .refused(let over) = try world.take(job("u2", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    else {
      throw TestFailure("an ended activity takes no update")
    }
    #expect(over.detail.hasPrefix("to.activity: has ended"))
    // A token that is late after the end gets the end.
    #expect(try world.token("d3", "cc03cc03") == .changed)
    let last = try world.queued()
    #expect(last.map(\.id) == ["e1/late/d3"])
    #expect(try world.resolve(last.first?.text ?? "") == ["d3": "cc03cc03"])
  }

  /// Each page for a late token is for that one: where the device has another by then, the claim is left to that one's page.
  @Test func aLatePageIsForItsTokenOnly() throws {
    let world = try ActivityWay()
    defer { world.close() }
    try world.register("d1", startToken: "aa01aa01")
    _ = try world.publishedBody(job("s1", to: #"{"devices":["d1"]}"#, payload: Self.start, #","activity":"ride-17""#))
    _ = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.token("d1", "cc01cc01") == .changed)
    let first = try world.queued()
    #expect(try world.token("d1", "cc02cc02") == .changed)
    let second = try world.queued()
    try #require(first.count == 1 && second.count == 1)
    var page = PushJob()
    page.bytes = Array(first[0].text.utf8)
    page.bodyCount = page.bytes.count
    var parser = JobParser()
    let (id, none): ([UInt8], [UInt8]) = (Array("u1/late/d1".utf8), [])
    try parser.parse(into: &page, fallbackID: none.span)
    let revision = page.revision
    func resolve(_ token: String, revision: UInt32) throws -> [String: String] {
      let token = Array(token.utf8)
      let apnsID = UUIDValue.apnsID(page: id.span, lateToken: token.span, revision: revision)
      return try world.resolve(first[0].text, apnsID: apnsID)
    }
    #expect(try resolve("cc01cc01", revision: revision).isEmpty)
    #expect(try resolve("cc02cc02", revision: revision + 1).isEmpty, "a job that came twice may have two")
    // The other page was not published, and the registration comes again.
    #expect(try world.token("d1", "cc02cc02") == .changed)
    #expect(try world.queued().count == 1)
    #expect(try resolve("cc02cc02", revision: revision) == ["d1": "cc02cc02"])
    // A copy of a page that an older worker published: from its ordinal.
    #expect(try world.resolve(first[0].text, apnsID: UUIDValue.apnsID(for: page, target: 0)) == ["d1": "cc02cc02"])
  }

  /// However a device's tokens change, it is started once or alerted once.
  @Test func whoCannotShowItIsAlerted() throws {
    let world = try ActivityWay()
    defer { world.close() }
    try world.register("d1", startToken: nil, alertToken: "aa01aa01")
    try world.register("d2", startToken: "bb02bb02", alertToken: "aa02aa02")
    try world.register("d3", startToken: nil)
    let more = #","activity":"ride-17","fallback":{"title":"T","body":"B"}"#
    let first = try world.publishedBody(job("s1", to: #"{"devices":["d1"]}"#, payload: Self.start, more))
    #expect(try world.page(first, 0) == ["d2": "bb02bb02"])
    let alerts = try world.fallbackPage(first, 1)
    #expect(try world.resolve(alerts) == ["d1": "aa01aa01"], "d2 was started, and d3 has no token at all")
    #expect(try world.resolve(alerts) == ["d1": "aa01aa01"], "the page came again")
    try world.register("d1", startToken: "bb01bb01")
    #expect(try world.page(first, 2) == ["d2": "bb02bb02"], "d1 was alerted")
    #expect(try world.resolve(alerts) == ["d1": "aa01aa01"], "its alert is still in flight")
    let second = try world.publishedBody(job("s2", to: #"{"devices":["d1"]}"#, payload: Self.start, more))
    #expect(try world.page(second, 0).isEmpty)
    #expect(try world.resolve(world.fallbackPage(second, 1)).isEmpty)

    // Its alert surely did not come: now the device can be started.
    try world.tokenGone(alerts, ordinal: 0)
    #expect(try world.resolve(alerts).isEmpty)
    #expect(try world.page(second, 0) == ["d1": "bb01bb01"])
  }

  @Test func anAppMayStartItItself() throws {
    let world = try ActivityWay()
    defer { world.close() }
    #expect(try world.token("new", "dd01dd01") == .changed, "a device may be known by its activity first")
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(updated, 0, live: true) == ["new": "dd01dd01"])
    #expect(try world.token("new", "", at: 5) == .changed)
    world.now += 2_000
    let next = try world.publishedBody(job("u2", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(next, 0, live: true).isEmpty)
    #expect(try world.token("new", "dd01dd01", at: world.lastAt - 1) == .older)
    guard case .refused(let error) = try world.take(job("u9", to: #"{"activity":"no"}"#, payload: Self.update)) else {
      throw TestFailure("an unknown activity takes no update")
    }
    #expect(error.detail.hasPrefix("to.activity: is not known"))
  }

  @Test func updatesOfOneSecondBecomeOne() throws {
    let world = try ActivityWay()
    defer { world.close() }
    _ = try world.token("d", "dd01dd01")
    let update = { job($0, to: #"{"activity":"ride-17"}"#, payload: Self.update) }
    _ = try world.publishedBody(update("u1"))
    guard case .waits(let second, _) = try world.take(update("u2")),
      case .waits(let third, let milliseconds) = try world.take(update("u3"))
    else { throw TestFailure("an update within the same second waits") }
    world.now += milliseconds
    guard second < third, case .superseded(second) = try world.take(update("u2")),
      case .publish(let body) = try world.take(update("u3"))
    else { throw TestFailure("the newer one goes out") }
    #expect(try world.page(String(decoding: body, as: UTF8.self), 0, live: true) == ["d": "dd01dd01"])
  }

  /// Redis was restored to a moment ago: pages of the updates since come again, and with them a number that is another update's by now.
  @Test func pagesOfLostUpdates_standInNoNewerOnesWay() throws {
    let world = try ActivityWay()
    defer { world.close() }
    let update = { job($0, to: #"{"activity":"ride-17"}"#, payload: Self.update) }
    _ = try world.token("d", "dd01dd01")
    _ = try world.publishedBody(update("u1"))
    try world.mark()
    var lost: [String] = []
    for id in ["u2", "u3"] {
      world.now += 2_000
      lost.append(try world.publishedBody(update(id)))
    }
    guard case .waits = try world.take(update("u4")) else { throw TestFailure("it waits") }
    try world.rewind()
    world.now += 2_000
    #expect(try world.page(lost[1], 0, live: true) == ["d": "dd01dd01"], "nothing newer is known")
    guard case .publish(let newer) = try world.take(update("u4")) else {
      throw TestFailure("nobody knows that it came")
    }
    for text in lost { #expect(try world.page(text, 0, live: true).isEmpty) }
    #expect(try world.page(String(decoding: newer, as: UTF8.self), 0, live: true) == ["d": "dd01dd01"])
    world.now += 2_000
    let newest = try world.publishedBody(update("u5"))
    #expect(try world.page(lost[1], 0, live: true).isEmpty, "its number is the newest one's now")
    #expect(try world.page(newest, 0, live: true) == ["d": "dd01dd01"])
  }

  /// Redis was restored to a time before the start, whose pages were published.
  @Test func pagesOfALostStart_areSent() throws {
    let world = try ActivityWay()
    defer { world.close() }
    try world.register("d", startToken: "aa01aa01")
    try world.mark()
    let start = try world.publishedBody(
      job("s1", to: #"{"devices":["d"]}"#, payload: Self.start, #","activity":"ride-17""#))
    try world.rewind()
    #expect(try world.page(start, 0) == ["d": "aa01aa01"])
    _ = try world.token("d", "dd01dd01")
    world.now += 2_000
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(updated, 0, live: true) == ["d": "dd01dd01"])
    // Its system has ended it.
    let later = try ActivityWay()
    defer { later.close() }
    try later.register("d", startToken: "aa01aa01")
    later.now += ActivityState.lifeMilliseconds
    #expect(try later.page(start, 0).isEmpty)
  }

  /// A device keeps the first of two states with one timestamp.
  @Test func updateAfterALostOneOfThisSecond_hasALaterTimestamp() throws {
    let world = try ActivityWay(redis: RedisServer(), hasOwnClock: false)
    defer { world.close() }
    let update = { job($0, to: #"{"activity":"ride-17"}"#, payload: Self.update) }
    _ = try world.token("d", "dd01dd01")
    try world.mark()
    try world.rewind(ends: true)
    let second = try world.connectedAt() / 1_000
    let taken = try world.take(update("u1"))
    // Where this machine took longer than the rest of that second, its time does not matter any more.
    if case .waits(1, let milliseconds) = taken { return #expect(1...1_000 ~= milliseconds) }
    guard case .publish(let body) = taken else { throw TestFailure("\(taken)") }
    #expect(try #require(ActivityPayload(Array(world.payload(of: body))).timestamp) > second)
  }

  /// Its ordinals are other devices' now. A push to those must not count as sent.
  @Test(arguments: [
    #""id":"old/0","to":{"page":0,"ordinals":[0],"epoch":1}"#,
    #""id":"old/late/x","to":{"page":4294967295,"ordinals":[0],"late":"x"}"#,
  ])
  func aPageFromBeforeRedisWasEmptiedMarksNobody(_ fields: String) throws {
    let world = try ActivityWay()
    defer { world.close() }
    _ = try world.token("d", "dd01dd01")
    let old =
      #"{"parent_id":"old",\#(fields),"app":"com.example.app","environment":"sandbox","push_type":"liveactivity","activity":"ride-17","revision":9,"payload":\#(Self.update)}"#
    #expect(try world.resolve(old).isEmpty)
    let updated = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    #expect(try world.page(updated, 0, live: true) == ["d": "dd01dd01"])
  }

  /// The worker that stored a late token dies before its push is confirmed: the registration is redelivered, and the push is sent.
  @Test func aDeadRegistrarLosesNoPush() throws {
    let world = try ActivityWay()
    defer { world.close() }
    _ = try world.token("d0", "dd01dd01")
    _ = try world.publishedBody(job("u1", to: #"{"activity":"ride-17"}"#, payload: Self.update))
    var died = 0
    for turns in 0..<12 {
      if try world.tokenOfADyingRegistrar("late-\(turns)", "ee0\(turns % 10)ee01", turns: turns) { continue }
      died += 1
      _ = try world.token("late-\(turns)", "ee0\(turns % 10)ee01", at: world.lastAt)
    }
    #expect(died > 3)
    let ids = Set(try world.queued().map(\.id))
    #expect(ids == Set((0..<12).map { "u1/late/late-\($0)" }))
  }
}
