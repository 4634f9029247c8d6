import Testing

@testable import PushCore

/// An activity whose updates come on a broadcast channel: for which devices, and what is sent for it.
@Suite struct ActivityChannelTests {
  private static let now: Int64 = 1_796_000_000_000
  private static let start = #"""
    {"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{"eta":9},"alert":{"title":"t","body":"b"}}}
    """#
  private let channel = ChannelID(text: "kQot7IkCXMG+642hZY7sZw==")

  private func started(
    _ activity: inout ActivityState?, _ jobs: inout ActivityJobs, on channel: ChannelID?, job: UInt64 = 1
  ) throws {
    try started(&activity, &jobs, channel.map { .channel($0) } ?? .tokens, job: job)
  }

  private func started(
    _ activity: inout ActivityState?, _ jobs: inout ActivityJobs, _ way: ActivityState.UpdateWay, job: UInt64 = 1
  ) throws {
    _ = try ActivityState.start(&activity, type: "Ride", digest: 7, way: way, job: job, jobs: &jobs, now: Self.now)
  }

  @Test func theFirstChannelStays() throws {
    var jobs = ActivityJobs()
    var activity: ActivityState?
    try started(&activity, &jobs, on: channel)
    try started(&activity, &jobs, on: ChannelID(text: "AAAA"), job: 2)
    #expect(activity?.channel == channel && channel != nil)
    var other: ActivityState?
    try started(&other, &jobs, on: nil)
    try started(&other, &jobs, on: channel, job: 2)
    #expect(other?.channel == channel, "its first devices have tokens, and the later ones are many")
    try started(&other, &jobs, .tokens, job: 3)
    #expect(other?.channel == channel)
    var small: ActivityState?
    try started(&small, &jobs, .tokens)
    try started(&small, &jobs, .undecided, job: 2)
    #expect(small?.updateWay == .tokens, "what is decided is not undecided again")
    try started(&small, &jobs, .awaited, job: 2)
    try started(&small, &jobs, .tokens, job: 3)
    #expect(small?.updateWay == .tokens, "a start of few devices came meanwhile")
    try started(&small, &jobs, on: channel, job: 2)
    #expect(small?.channel == channel)
  }

  @Test func anActivityIsKnownWhileItsWayIsDecided() throws {
    let channel = try #require(channel)
    var jobs = ActivityJobs()
    var activity: ActivityState?
    try started(&activity, &jobs, .undecided)
    #expect(activity?.startRevision?.number == 1 && activity?.channel == nil)
    let update = try ActivityState.revise(&activity, isEnd: false, job: 2, jobs: &jobs, now: Self.now + 5_000)
    guard case .begun(let revision) = update else { throw JobError(field: "", rule: "\(update)") }
    #expect(revision.number == 2, "it comes while the start waits")
    try started(&activity, &jobs, .awaited)
    try started(&activity, &jobs, .undecided, job: 3)
    #expect(activity?.updateWay == .awaited, "another start does not count again")
    try started(&activity, &jobs, .channel(channel))
    try started(&activity, &jobs, .tokens, job: 3)
    #expect(activity?.channel == channel && activity?.startRevision?.number == 1)
    #expect(activity?.newerThanStart == revision, "whoever is started now has missed its broadcast")
    try started(&activity, &jobs, .awaited, job: 4)
    #expect(activity?.channel == channel)
  }

  @Test func noBroadcastFollowsANewerOne() throws {
    var jobs = ActivityJobs()
    var activity: ActivityState?
    try started(&activity, &jobs, on: channel)
    #expect(activity?.newerThanStart == nil && activity?.isOvertaken(1) == false)
    _ = try ActivityState.revise(&activity, isEnd: false, job: 2, jobs: &jobs, now: Self.now + 5_000)
    #expect(activity?.isOvertaken(2) == false)
    // Its timestamp is not due.
    _ = try ActivityState.revise(&activity, isEnd: false, job: 3, jobs: &jobs, now: Self.now + 5_000)
    #expect(activity?.isOvertaken(2) == false && activity?.newerThanStart == nil)
    _ = ActivityState.begin(&activity, number: 3, now: Self.now + 7_000)
    #expect(activity?.isOvertaken(2) == true && activity?.isOvertaken(3) == false)
    #expect(activity?.newerThanStart?.number == 3)
  }

  @Test func whoLeavesTheChannelIsToldByTokenOrNotAtAll() throws {
    var jobs = ActivityJobs()
    var activity: ActivityState?
    try started(&activity, &jobs, on: channel)
    var members: [ActivityMember?] = [nil, nil, nil]
    #expect(activity?.resolveStart(1, inputPushChannel: channel?.text, &members[0], now: Self.now) == .send)
    #expect(activity?.resolveStart(1, &members[1], now: Self.now) == .send, "it has no channels")
    let answer = try ActivityState.leave(&activity, &members, job: 3, jobs: &jobs, now: Self.now + 8_000)
    guard case .begun(let leave) = answer else { throw JobError(field: "", rule: "\(answer)") }
    #expect(members.map { $0?.isOutOfReach } == [true, false, false])
    let push = ActivityState.Push(revision: leave.number, isLeave: true)
    #expect(activity?.resolve(push, &members[0], now: Self.now + 9_000) == .skipped(.noToken))
    // A token ends it.
    let late = ActivityState.register(
      &activity, &members[0], token: [1], at: Self.now + 10_000, now: Self.now + 10_000)
    #expect(late == .late(leave, isLeave: true) && members[0]?.isOutOfReach == false)
    let lateEnd = ActivityState.Push(revision: leave.number, isLate: true, isLeave: true)
    #expect(
      activity?.resolve(lateEnd, &members[0], now: Self.now + 11_000) == .send([1], registeredAt: Self.now + 10_000))
  }

  @Test func whoIsOnTheChannelIsSentNothingBesideIt() throws {
    var jobs = ActivityJobs()
    var activity: ActivityState?
    try started(&activity, &jobs, on: channel)
    var member: ActivityMember?
    var other: ActivityMember?
    #expect(activity?.resolveStart(1, inputPushChannel: channel?.text, &member, now: Self.now) == .send)
    #expect(activity?.resolveStart(1, inputPushChannel: channel?.text, &member, now: Self.now) == .send, "once more")
    #expect(activity?.resolveStart(1, &other, now: Self.now) == .send, "its page names no channel")
    _ = try ActivityState.revise(&activity, isEnd: false, job: 2, jobs: &jobs, now: Self.now + 5_000)
    func register(_ member: inout ActivityMember?) -> ActivityState.Registered {
      ActivityState.register(&activity, &member, token: [1], at: Self.now + 6_000, now: Self.now + 6_000)
    }
    #expect(activity?.resolve(.init(revision: 2), &member, now: Self.now + 5_500) == .skipped(.noToken))
    #expect(member?.way == .channel && other?.way == .page)
    guard case .late = register(&other) else { return #expect(Bool(false), "it has seen no update") }
    let late = ActivityState.Push(revision: 2, isLate: true)
    let sent = ActivityState.Resolved.send([1], registeredAt: Self.now + 6_000)
    #expect(activity?.resolve(late, &other, now: Self.now + 7_000) == sent)
    // On the channel an activity has no token: its start failed, and the app started it itself.
    guard case .late = register(&member) else { return #expect(Bool(false), "it has seen no update") }
    #expect(member?.way != .channel && member?.status == .live)
    #expect(activity?.resolve(late, &member, now: Self.now + 7_000) == sent)
  }

  @Test func aChannelOfTheProducersIsNone() throws {
    var jobs = ActivityJobs()
    var activity: ActivityState?
    try started(&activity, &jobs, on: nil)
    var member: ActivityMember?
    #expect(activity?.resolveStart(1, inputPushChannel: "AAAA", &member, now: Self.now) == .send)
    _ = ActivityState.register(&activity, &member, token: [1], at: Self.now, now: Self.now)
    guard case .send = activity?.resolve(.init(revision: 2), &member, now: Self.now) else {
      return #expect(Bool(false), "Herald sends nothing on it")
    }
  }

  @Test func theStartNamesIt() throws {
    let channel = try #require(channel)
    let payload = try ActivityPayload(Array(Self.start.utf8))
    #expect(payload.subscribing(to: channel) == nil, "it has no timestamp yet")
    let edited = try ActivityPayload(payload.edited(ActivityEdits(timestamp: 1_796_000_000)))
    let subscribing = try #require(edited.subscribing(to: channel))
    let again = try ActivityPayload(subscribing)
    #expect(again.inputPushChannel == channel.text && edited.inputPushChannel == nil)
    #expect(again.subscribing(to: channel) == nil, "it says one already")
    let text = String(decoding: subscribing, as: UTF8.self)
    let usual = String(decoding: edited.bytes, as: UTF8.self)
    #expect(text.replacing(#""input-push-channel":"\#(channel)","#, with: "") == usual)
    let parsed = Parsed(
      job(
        "liveactivity", payload: String(decoding: edited.bytes, as: UTF8.self),
        [("to", #"{"users":["u"]}"#), ("activity", #""ride-17""#), ("revision", "1")]))
    #expect(parsed.error == nil, "\(parsed.error?.detail ?? "")")
    var output: [UInt8] = []
    PageWriter.append(parsed.job, number: 2, ordinals: Array("3,9".utf8), epoch: 0, payload: subscribing, to: &output)
    let page = Parsed(bytes: output)
    #expect(page.error == nil && page.job.page.count == 2, "\(page.error?.detail ?? "")")
    #expect(page.text(page.job.payload) == text && page.text(page.job.id) == "\(someID)/2")
  }

  private func broadcast(_ changes: [(String, String?)]) -> Parsed {
    Parsed(
      job(
        "liveactivity", payload: #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#,
        [
          ("id", "\"\(someID)/channel\""), ("parent_id", "\"\(someID)\""), ("to", #"{"channel":"AAAA"}"#),
          ("activity", #""ride-17""#), ("revision", "3"),
        ] + changes))
  }

  @Test func anUpdateIsOneBroadcast() throws {
    let channel = try #require(channel)
    let update = Parsed(
      job(
        "liveactivity", payload: #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#,
        [("to", #"{"activity":"ride-17"}"#), ("activity", #""ride-17""#), ("revision", "3")]))
    #expect(update.error == nil, "\(update.error?.detail ?? "")")
    var output: [UInt8] = []
    PageWriter.append(update.job, channel: channel, to: &output)
    let parsed = Parsed(bytes: output)
    #expect(parsed.error == nil, "\(parsed.error?.detail ?? "")")
    #expect(parsed.job.targetKind == .channel && parsed.text(parsed.job.targets[0]) == channel.text)
    #expect(parsed.text(parsed.job.id) == "\(someID)/channel" && parsed.text(parsed.job.parentID) == someID)
    #expect(parsed.text(parsed.job.activity) == "ride-17" && parsed.job.revision == 3)
    #expect(broadcast([]).error == nil)
    // Once more, for devices that were started since.
    output = []
    PageWriter.append(update.job, channel: channel, afterStart: 0xAB, to: &output)
    let again = Parsed(bytes: output)
    #expect(again.error == nil, "\(again.error?.detail ?? "")")
    #expect(again.text(again.job.id) == "\(someID)/channel/00000000000000ab")
    #expect(again.text(again.job.parentID) == someID && again.job.revision == 3)
  }

  @Test(
    arguments: [
      [("id", "\"\(someID)/0\"")], [("id", "\"\(someID)\"")], [("id", "\"\(someID)/channel/ab\"")],
      [("id", "\"\(someID)/channel/00000000000000AB\"")], [("parent_id", "\"other\"")], [("activity", nil)],
      [("revision", nil)], [("parent_id", "\"\"")],
    ] as [[(String, String?)]])
  func noOtherChannelJobHasAParent(_ changes: [(String, String?)]) {
    let error = broadcast(changes).error
    #expect(error?.field == "parent_id", "\(error?.detail ?? "none")")
  }

  @Test func aProducersBroadcastNamesNoActivity() {
    #expect(broadcast([("parent_id", nil), ("revision", nil), ("id", "\"x\"")]).error?.field == "activity")
    #expect(broadcast([("leave", "1")]).error?.field == "revision")
  }

  @Test func theRequestForItIsOne() throws {
    let scope = try #require(AppScope(app: "com.example.app", environment: .sandbox))
    let long = String(repeating: "é", count: 64)
    let ids = try ["ride-17", "a \"b\"\\", "a/b", long].map { try #require(ActivityID($0)) }
    let names = ids.map(ChannelName.init(ofActivity:))
    #expect(names[0].text == "activity:ride-17" && Set(names).count == names.count)
    for name in names {
      #expect(ChannelName(name.text) == name, "the rule for names holds")
      var body: [UInt8] = []
      ChannelJobWriter.appendEnsure(name, .mostRecent, id: "activity-start:\"1\"", in: scope, to: &body)
      let job = try ChannelJobParser.parse(body, fallbackID: "")
      #expect(job == ChannelJob(id: "activity-start:\"1\"", scope: scope, task: .ensure(name, .mostRecent)))
    }
  }
}
