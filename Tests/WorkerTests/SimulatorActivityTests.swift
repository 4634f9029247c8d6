import APNsSimulator
import PushCore
import Testing

/// What simulated devices do with Live Activities, rule by rule, without a server.
struct SimulatorActivityTests {
  private typealias R = SimulatorRequests

  private static let startToken = "80aa" + String(repeating: "0", count: 139) + "1"
  private static let topic = R.app + ".push-type.liveactivity"
  /// The simulated clock at the beginning, Unix seconds.
  private static let start = R.start.unixSeconds

  /// Devices that register after 200 ms.
  private func devices(_ change: (inout SimulatedDevices) -> Void = { _ in }) -> SimulatedDevices {
    var devices = SimulatedDevices(environment: "production", seed: 1)
    change(&devices)
    return devices
  }

  private func startPayload(
    _ id: String = "ride-17", timestamp: Int64 = start, state: String = #"{"eta":9}"#, more: String = ""
  ) -> [UInt8] {
    Array(
      (#"{"aps":{"timestamp":\#(timestamp),"event":"start","content-state":\#(state),"attributes-type":"Ride","#
        + #""attributes":{"activityId":"\#(id)","pushwoosh":{"activityId":"p-\#(id)"}},"#
        + #""alert":{"title":"A","body":"B"}\#(more)}}"#).utf8)
  }

  private func updatePayload(
    _ timestamp: Int64, event: String = "update", state: String? = #"{"eta":5}"#, more: String = ""
  ) -> [UInt8] {
    let content = state.map { #","content-state":\#($0)"# } ?? ""
    return Array(#"{"aps":{"timestamp":\#(timestamp),"event":"\#(event)"\#(content)\#(more)}}"#.utf8)
  }

  /// Starts one activity and lets it register; its update token.
  private func startOne(
    _ devices: inout SimulatedDevices, _ id: String = "ride-17", token: String = startToken, at seconds: Int64 = 0
  ) throws -> String {
    devices.receive(
      startPayload(id, timestamp: Self.start + seconds), token: token, app: R.app, now: R.later(seconds: seconds))
    devices.advance(to: R.later(seconds: seconds + 1))
    return try #require(devices.all.last?.updateToken)
  }

  // MARK: - Start and registration

  @Test func aStartIsShownAndRegistersItsToken() throws {
    var devices = devices()
    devices.receive(startPayload(), token: Self.startToken, app: R.app, now: R.start)
    var activity = try #require(devices.all.first)
    #expect(activity.state == .active && activity.cause == nil)
    #expect(activity.id == "ride-17" && activity.app == R.app && activity.attributesType == "Ride")
    #expect(activity.contentState == #"{"eta":9}"# && activity.timestamp == Self.start && activity.alerts == 1)
    #expect(activity.device == "device-0000000000000001", "named by the last digits of its token")
    #expect(activity.updateToken == nil)
    #expect(devices.waitMilliseconds(now: R.start) == 200)
    #expect(devices.takeRegistrations().isEmpty)

    devices.advance(to: R.later(seconds: 1))
    activity = try #require(devices.all.first)
    let token = try #require(activity.updateToken)
    #expect(token.utf8.count == 160 && token.utf8.allSatisfy { Hex.value($0) != nil })
    #expect(activity.registeredAt == R.later(seconds: 1).unixMilliseconds)
    let registration = try #require(devices.takeRegistrations().first)
    let json = JSONValue(registration.bytes)?.object ?? [:]
    #expect(
      json == [
        "version": .number(1, isInteger: true), "kind": .string("activity"),
        "at": .number(Double(R.later(seconds: 1).unixMilliseconds), isInteger: true), "app": .string(R.app),
        "environment": .string("production"), "device": .string("device-0000000000000001"),
        "activity": .string("ride-17"), "token": .string(token),
      ])
    #expect(devices.takeRegistrations().isEmpty, "each is told once")
  }

  @Test func theIdIsReadAtAPath() {
    var devices = devices { $0.settings.idPath = ["pushwoosh", "activityId"] }
    devices.receive(startPayload(), token: Self.startToken, app: R.app, now: R.start)
    #expect(devices.all.map(\.id) == ["p-ride-17"])
  }

  @Test func withoutAnIdNothingCanBeRegistered() {
    var devices = devices { $0.settings.idPath = ["nowhere"] }
    devices.receive(startPayload(), token: Self.startToken, app: R.app, now: R.start)
    devices.advance(to: R.later(seconds: 10))
    #expect(devices.all.map(\.id) == [nil])
    #expect(devices.all.map(\.updateToken) == [nil])
    #expect(devices.takeRegistrations().isEmpty)
  }

  @Test func aNamedDevice() {
    var devices = devices()
    devices.setDevice("hwid-1", of: Self.startToken)
    devices.receive(startPayload(), token: Self.startToken, app: R.app, now: R.start)
    devices.advance(to: R.later(seconds: 1))
    #expect(devices.takeRegistrations().map(\.device) == ["hwid-1"])
  }

  @Test func idsThatAreEqualOnlyCanonically_areTwoActivities() {
    var devices = devices()
    for (number, device) in ["\u{E9}-1", "e\u{301}-1"].enumerated() {
      let token = "00\(number)" + Self.startToken.dropFirst(3)
      devices.setDevice(device, of: token)
      for id in ["rid\u{E9}", "ride\u{301}"] {
        devices.receive(startPayload(id), token: token, app: R.app, now: R.start)
      }
    }
    #expect(devices.all.map(\.state) == [.active, .active, .active, .active], "none replaces another")
    #expect(devices.swipe(activity: "rid\u{E9}", device: "e\u{301}-1", now: R.start) == 1)
    #expect(devices.swipe(activity: "ride\u{301}", device: nil, now: R.start) == 2)
  }

  @Test func tokensAreUnlikeAlsoAfterANewStart() throws {
    var tokens: Set<String> = []
    for second: Int64 in 0..<2 {
      // The same seed, a later time: a simulator that was started again.
      var devices = devices()
      for index in 0..<200 {
        tokens.insert(try startOne(&devices, "a-\(index)", at: second))
      }
    }
    #expect(tokens.count == 400)
  }

  @Test func registrationTimesOnlyGrow() {
    var devices = devices()
    for index in 0..<20 {
      devices.receive(startPayload("a-\(index)"), token: Self.startToken, app: R.app, now: R.start)
    }
    devices.advance(to: R.later(seconds: 1))
    let times = devices.takeRegistrations().map(\.at)
    #expect(times.count == 20 && zip(times, times.dropFirst()).allSatisfy { $0 < $1 }, "\(times)")
  }

  // MARK: - Faults

  @Test func lateNeverLost() {
    var devices = devices()
    var late = ActivityFault()
    late.registration = .after(milliseconds: 5000)
    var never = ActivityFault()
    never.registration = .never
    var lost = ActivityFault()
    lost.isLost = true
    devices.receive(startPayload("late"), token: "80a1", app: R.app, fault: late, now: R.start)
    devices.receive(startPayload("never"), token: "80a2", app: R.app, fault: never, now: R.start)
    devices.receive(startPayload("lost"), token: "80a3", app: R.app, fault: lost, now: R.start)
    #expect(devices.all.map(\.id) == ["late", "never"], "a stale start token shows nothing")
    devices.advance(to: R.later(seconds: 4))
    #expect(devices.takeRegistrations().isEmpty)
    devices.advance(to: R.later(seconds: 100))
    #expect(devices.takeRegistrations().map(\.activity) == ["late"])
    #expect(devices.counts.lost == 1 && devices.counts.started == 2)
    // A device that never registers does not report the end either.
    let swiped = devices.swipe(activity: "never", device: nil, now: R.later(seconds: 101))
    #expect(swiped == 1)
    #expect(devices.takeRegistrations().isEmpty)
  }

  @Test func swipedByAFault() throws {
    var devices = devices()
    var fault = ActivityFault()
    fault.swipeMilliseconds = 1000
    devices.receive(startPayload(), token: Self.startToken, app: R.app, fault: fault, now: R.start)
    devices.advance(to: R.later(seconds: 2))
    let activity = try #require(devices.all.first)
    #expect(activity.state == .dismissed && activity.cause == .swiped)
    #expect(devices.takeRegistrations().map(\.token) == [try #require(activity.updateToken), ""])
  }

  @Test func renewedTokens() throws {
    var devices = devices()
    var fault = ActivityFault()
    fault.renewMilliseconds = 1000
    devices.receive(startPayload(), token: Self.startToken, app: R.app, fault: fault, now: R.start)
    devices.advance(to: R.later(seconds: 1))
    let first = try #require(devices.all.first?.updateToken)
    devices.advance(to: R.later(seconds: 3))
    let second = try #require(devices.all.first?.updateToken)
    #expect(first != second)
    #expect(devices.takeRegistrations().map(\.token) == [first, second])
    #expect(devices.refusal(token: first, topic: Self.topic)?.reason == "Unregistered")
    #expect(devices.refusal(token: second, topic: Self.topic) == nil)
  }

  @Test func theNextPushOvertakes() throws {
    var devices = devices()
    let token = try startOne(&devices)
    var fault = ActivityFault()
    fault.isReordered = true
    let now = R.later(seconds: 5)
    devices.receive(updatePayload(Self.start + 1), token: token, app: R.app, fault: fault, now: now)
    #expect(devices.all.first?.timestamp == Self.start, "it waits")
    devices.receive(
      updatePayload(Self.start + 2, state: #"{"eta":1}"#), token: token, app: R.app, fault: fault, now: now)
    let activity = try #require(devices.all.first)
    #expect(activity.timestamp == Self.start + 2 && activity.contentState == #"{"eta":1}"#)
    #expect(activity.updates == 1 && activity.ignored == 1)
    #expect(devices.counts.reordered == 1)
  }

  @Test func whatNobodyOvertakesComesAllTheSame() throws {
    var devices = devices()
    let token = try startOne(&devices)
    var fault = ActivityFault()
    fault.isReordered = true
    devices.receive(updatePayload(Self.start + 1), token: token, app: R.app, fault: fault, now: R.later(seconds: 5))
    devices.advance(to: R.later(seconds: 8))
    #expect(devices.all.first?.timestamp == Self.start + 1)
    #expect(devices.counts.reordered == 0)
  }

  // MARK: - Updates

  @Test func onlyNewerTimestampsAreShown() throws {
    var devices = devices()
    let token = try startOne(&devices)
    let now = R.later(seconds: 5)
    for (timestamp, eta) in [(10, 1), (10, 2), (9, 3), (11, 4)] as [(Int64, Int)] {
      devices.receive(
        updatePayload(Self.start + timestamp, state: #"{"eta": \#(eta) , "n":9007199254740993}"#), token: token,
        app: R.app, now: now)
    }
    let activity = try #require(devices.all.first)
    #expect(activity.contentState == #"{"eta": 4 , "n":9007199254740993}"#, "byte for byte")
    #expect(activity.timestamp == Self.start + 11 && activity.updates == 2 && activity.ignored == 2)
    #expect(devices.counts.displayed == 2 && devices.counts.ignored == 2)
  }

  @Test func aSecondStartWithTheIDEndsTheOlder() throws {
    var devices = devices()
    let first = try startOne(&devices)
    _ = devices.takeRegistrations()
    let second = try startOne(&devices, at: 10)
    #expect(devices.all.map(\.state) == [.dismissed, .active])
    #expect(devices.all.map(\.cause) == [.replaced, nil])
    #expect(devices.refusal(token: first, topic: Self.topic)?.status == 410)
    #expect(devices.takeRegistrations().map(\.token) == [second], "no word that would end the newer one")
    #expect(devices.counts.replaced == 1)
    // Another device, and another app, have activities of their own.
    _ = try startOne(&devices, token: "80bb", at: 20)
    devices.receive(startPayload(), token: Self.startToken, app: "com.example.other", now: R.later(seconds: 30))
    #expect(devices.all.filter { $0.state == .active }.count == 3)
  }

  @Test func strangersChangeNothing() throws {
    var devices = devices()
    let token = try startOne(&devices)
    let before = devices.all
    let now = R.later(seconds: 5)
    devices.receive(updatePayload(Self.start + 1), token: Self.startToken, app: R.app, now: now)
    devices.receive(updatePayload(Self.start + 1), token: "80ff", app: R.app, now: now)
    devices.receive(Array("{}".utf8), token: token, app: R.app, now: now)
    #expect(devices.all == before)
    #expect(devices.counts.unknown == 2)
    #expect(devices.refusal(token: token, topic: R.app)?.reason == "DeviceTokenNotForTopic")
    #expect(devices.refusal(token: token, topic: "com.example.other.push-type.liveactivity") != nil)
    #expect(devices.refusal(token: "80ff", topic: Self.topic) == nil)
  }

  @Test func staleDates() throws {
    var devices = devices()
    let token = try startOne(&devices)
    let send = { (devices: inout SimulatedDevices, at: Int64, stale: Int64) in
      devices.receive(
        updatePayload(Self.start + at, more: #","stale-date":\#(Self.start + stale)"#), token: token, app: R.app,
        now: R.later(seconds: at))
    }
    send(&devices, 10, 60)
    send(&devices, 20, 100)
    devices.advance(to: R.later(seconds: 70))
    #expect(devices.all.first?.state == .active, "the newest stale date counts")
    devices.advance(to: R.later(seconds: 100))
    #expect(devices.all.first?.state == .stale)
    send(&devices, 110, 200)
    #expect(devices.all.first?.state == .active)
    send(&devices, 120, 130)
    devices.advance(to: R.later(seconds: 135))
    #expect(devices.all.first?.state == .stale, "an earlier one too")
    send(&devices, 140, 1)
    #expect(devices.all.first?.stale == 3, "one in the past at once")
    devices.receive(updatePayload(Self.start + 150), token: token, app: R.app, now: R.later(seconds: 150))
    devices.advance(to: R.later(seconds: 5000))
    #expect(devices.all.first?.state == .active, "without a stale date it never is")
    #expect(devices.counts.stale == 3)
  }

  // MARK: - The end

  @Test(arguments: [(-1, true), (3600, false), (20_000, false), (nil, false)] as [(Int64?, Bool)])
  func dismissal(_ date: Int64?, isAtOnce: Bool) throws {
    var devices = devices()
    let token = try startOne(&devices)
    _ = devices.takeRegistrations()
    let more = date.map { #","dismissal-date":\#(Self.start + 10 + $0)"# } ?? ""
    devices.receive(
      updatePayload(Self.start + 10, event: "end", state: #"{"eta":0}"#, more: more), token: token, app: R.app,
      now: R.later(seconds: 10))
    var activity = try #require(devices.all.first)
    #expect(activity.cause == .end && activity.contentState == #"{"eta":0}"#)
    #expect(activity.state == (isAtOnce ? .dismissed : .ended))
    #expect((devices.refusal(token: token, topic: Self.topic) == nil) == !isAtOnce)
    if !isAtOnce {
      devices.receive(updatePayload(Self.start + 20), token: token, app: R.app, now: R.later(seconds: 20))
      activity = try #require(devices.all.first)
      #expect(activity.late == 1 && activity.contentState == #"{"eta":0}"#, "an ended one changes no more")
      // Four hours at most.
      let seconds = min(date ?? 14_400, 14_400)
      devices.advance(to: R.later(seconds: 10 + seconds - 1))
      #expect(devices.refusal(token: token, topic: Self.topic) == nil)
      devices.advance(to: R.later(seconds: 10 + seconds))
    }
    let refusal = devices.refusal(token: token, topic: Self.topic)
    #expect(refusal?.status == 410 && refusal?.reason == "Unregistered")
    #expect(refusal?.timestamp == devices.all.first?.dismissalAt)
    #expect(devices.takeRegistrations().map(\.token) == [""], "it tells that it is gone")
  }

  @Test func anEndWithoutStateKeepsTheLast() throws {
    var devices = devices()
    let token = try startOne(&devices)
    let now = R.later(seconds: 5)
    devices.receive(updatePayload(Self.start, event: "end", state: nil), token: token, app: R.app, now: now)
    #expect(devices.all.first?.state == .active, "an end is as old as its timestamp")
    devices.receive(updatePayload(Self.start + 1, event: "end", state: nil), token: token, app: R.app, now: now)
    #expect(devices.all.first?.state == .ended)
    #expect(devices.all.first?.contentState == #"{"eta":9}"#)
  }

  @Test func eightHoursAndFourMore() throws {
    var devices = devices()
    let token = try startOne(&devices)
    devices.advance(to: R.later(seconds: 8 * 3600 - 1))
    #expect(devices.all.first?.state == .active)
    devices.advance(to: R.later(seconds: 8 * 3600))
    #expect(devices.all.first?.state == .ended && devices.all.first?.cause == .expired)
    devices.receive(updatePayload(Self.start + 30_000), token: token, app: R.app, now: R.later(seconds: 30_000))
    #expect(devices.counts.late == 1)
    #expect(devices.refusal(token: token, topic: Self.topic) == nil)
    devices.advance(to: R.later(seconds: 12 * 3600))
    #expect(devices.all.first?.state == .dismissed)
    #expect(devices.refusal(token: token, topic: Self.topic)?.status == 410)
  }

  /// As after a clock that jumped.
  @Test func aLongSilenceEndsAndDismisses() throws {
    var devices = devices()
    _ = try startOne(&devices)
    devices.advance(to: R.later(seconds: 20 * 3600))
    let activity = try #require(devices.all.first)
    #expect(activity.state == .dismissed && activity.cause == .expired)
    #expect(activity.dismissalAt == R.later(seconds: 12 * 3600).unixMilliseconds)
  }

  @Test func swipedAway() throws {
    var devices = devices()
    let token = try startOne(&devices, token: "80a1")
    _ = try startOne(&devices, token: "80a2", at: 2)
    _ = try startOne(&devices, "other", token: "80a2", at: 4)
    _ = devices.takeRegistrations()
    let now = R.later(seconds: 20)
    let nobody = devices.swipe(activity: "ride-17", device: "device-80a3", now: now)
    let one = devices.swipe(activity: "ride-17", device: "device-80a1", now: now)
    #expect(nobody == 0 && one == 1)
    #expect(devices.takeRegistrations().map(\.token) == [""])
    #expect(devices.refusal(token: token, topic: Self.topic)?.timestamp == now.unixMilliseconds)
    let rest = devices.swipe(activity: "ride-17", device: nil, now: now)
    #expect(rest == 1, "who swiped it has it no more")
    #expect(devices.all.filter { $0.state == .active }.map(\.id) == ["other"])
  }

  @Test func swipedBeforeItRegistered() {
    var devices = devices()
    devices.receive(startPayload(), token: Self.startToken, app: R.app, now: R.start)
    _ = devices.swipe(activity: "ride-17", device: nil, now: R.start)
    devices.advance(to: R.later(seconds: 10))
    #expect(devices.takeRegistrations().map(\.token) == [""], "no token of an activity that is gone")
  }

  // MARK: - Channels

  @Test func channelActivitiesFollowBroadcasts() throws {
    var devices = devices()
    let more = #","input-push-channel":"AAAA""#
    for token in ["80a1", "80a2"] {
      devices.receive(startPayload(more: more), token: token, app: R.app, now: R.start)
    }
    devices.receive(startPayload(), token: "80a3", app: R.app, now: R.start)
    devices.advance(to: R.later(seconds: 1))
    #expect(devices.takeRegistrations().map(\.device) == ["device-80a3"], "who follows a channel has no token")
    let now = R.later(seconds: 5)
    devices.receive(updatePayload(Self.start + 1), channel: "AAAA", app: R.app, now: now)
    devices.receive(updatePayload(Self.start + 1), channel: "AAAA", app: R.app, now: now)
    devices.receive(updatePayload(Self.start + 2), channel: "BBBB", app: R.app, now: now)
    devices.receive(updatePayload(Self.start + 2), channel: "AAAA", app: "com.example.other", now: now)
    #expect(devices.all.map(\.timestamp) == [Self.start + 1, Self.start + 1, Self.start])
    #expect(devices.counts.displayed == 2 && devices.counts.ignored == 2 && devices.counts.unknown == 2)
    _ = devices.swipe(activity: "ride-17", device: "device-80a1", now: now)
    devices.receive(updatePayload(Self.start + 3, event: "end"), channel: "AAAA", app: R.app, now: now)
    #expect(devices.all.map(\.cause) == [.swiped, .end, nil])
    #expect(devices.counts.late == 0, "a channel does not reach who is gone")
  }

  @Test func broadcastsAreOvertakenToo() {
    var devices = devices()
    devices.receive(
      startPayload(more: #","input-push-channel":"AAAA""#), token: "80a1", app: R.app, now: R.start)
    var fault = ActivityFault()
    fault.isReordered = true
    devices.receive(updatePayload(Self.start + 1), channel: "AAAA", app: R.app, fault: fault, now: R.start)
    devices.receive(updatePayload(Self.start + 2), channel: "AAAA", app: R.app, now: R.start)
    #expect(devices.counts.reordered == 1 && devices.counts.ignored == 1)
    #expect(devices.all.first?.timestamp == Self.start + 2)
  }

  // MARK: - Bounds

  @Test func theGoneAreForgottenFirst() throws {
    var devices = devices { $0.settings.activitiesMaximum = 3 }
    for (index, token) in ["80a0", "80a1", "80a2"].enumerated() {
      _ = try startOne(&devices, token: token, at: Int64(index))
    }
    let goneToken = try #require(devices.all[1].updateToken)
    _ = devices.swipe(activity: "ride-17", device: "device-80a1", now: R.later(seconds: 10))
    _ = try startOne(&devices, token: "80a3", at: 20)
    #expect(devices.all.map(\.startToken) == ["80a0", "80a2", "80a3"])
    #expect(devices.refusal(token: goneToken, topic: Self.topic) == nil, "nobody knows it any more")
    _ = try startOne(&devices, token: "80a4", at: 30)
    #expect(devices.all.map(\.startToken) == ["80a2", "80a3", "80a4"], "then the oldest")
    #expect(devices.counts.forgotten == 2)
    // Scheduled events of forgotten activities do not happen.
    devices.advance(to: R.later(seconds: 100_000))
    #expect(devices.all.count == 3)
  }

  @Test func noActivitiesAtAll() {
    var devices = devices { $0.settings.activitiesMaximum = 0 }
    devices.receive(startPayload(), token: Self.startToken, app: R.app, now: R.start)
    #expect(devices.all.isEmpty && devices.counts == ActivityCounts())
  }

  /// Many activities come and go: memory and scheduled events stay bounded.
  @Test func aSoakLeavesNothingBehind() {
    var devices = devices { $0.settings.activitiesMaximum = 10 }
    for index in 0..<5000 {
      devices.receive(
        startPayload("a-\(index)", more: #","stale-date":\#(Self.start + 90_000)"#), token: Self.startToken, app: R.app,
        now: R.start)
      _ = devices.takeRegistrations()
    }
    #expect(devices.all.count == 10)
    #expect(devices.pendingCount < 4000, "\(devices.pendingCount)")
  }

  @Test func forgettingAll() throws {
    var devices = devices()
    devices.setDevice("hwid-1", of: Self.startToken)
    let token = try startOne(&devices)
    devices.removeAll()
    #expect(devices.all.isEmpty && devices.counts == ActivityCounts())
    #expect(devices.takeRegistrations().isEmpty && devices.waitMilliseconds(now: R.start) == nil)
    #expect(devices.refusal(token: token, topic: Self.topic) == nil)
    let next = try startOne(&devices)
    #expect(next != token)
    #expect(devices.all.map(\.device) == ["hwid-1"], "names stay")
  }
}
