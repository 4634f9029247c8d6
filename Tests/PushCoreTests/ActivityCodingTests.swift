import Testing

@testable import PushCore

/// What Redis holds of an activity is read as it was written.
@Suite struct ActivityCodingTests {
  @Test func activitiesAndMembersSurviveRedis() throws {
    var random = SeededRandom(seed: 5)
    var activity: ActivityState?
    var member: ActivityMember?
    var jobs = ActivityJobs()
    var now: Int64 = 1_796_000_000_000
    for round in 0..<20_000 {
      if round % 40 == 0 { (activity, member, jobs) = (nil, nil, ActivityJobs()) }
      now += Int64(random.next() % 3_000)
      let job = random.next() % 20
      let token = [UInt8](repeating: UInt8(job), count: Int(random.next() % 100))
      switch random.next() % 6 {
      case 0:
        let channel = ChannelID(text: "AbC+").map { ActivityState.UpdateWay.channel($0) } ?? .tokens
        let way = [.tokens, channel, .undecided, .awaited][Int(job % 4)]
        _ = try? ActivityState.start(
          &activity, type: "Ride✓", digest: job % 2, way: way, job: job, jobs: &jobs, now: now)
      case 1, 2:
        let isEnd = random.next() % 9 == 0
        _ = try? ActivityState.revise(&activity, isEnd: isEnd, job: job, jobs: &jobs, now: now)
      case 3: _ = ActivityState.register(&activity, &member, token: token, at: now - 500, now: now)
      case 4: _ = activity?.resolve(.init(revision: UInt32(job), isLate: job % 3 == 0), &member, now: now)
      default:
        var members = [member]
        if random.next() % 5 == 0 {
          _ = try? ActivityState.leave(&activity, &members, job: job, jobs: &jobs, now: now)
          member = members[0]
        } else {
          _ = activity?.resolveStart(
            job, isAlert: job % 3 == 0, inputPushChannel: job % 2 == 0 ? "AbC+" : nil, &member, now: now)
        }
      }
      if let activity { #expect(decoded(activity.encode()) == activity) }
      if let member { #expect(decoded(member.encode()) == member) }
      let bytes = jobs.encode()
      let again = ActivityJobs(decoding: bytes.span)
      #expect(again == jobs)
    }
  }

  @Test func startedDevicesAreSmall() {
    var member = ActivityMember()
    #expect(member.start(.max) == .send)
    #expect(member.encode().count == 9)
    #expect(member.register([UInt8](repeating: 1, count: 80), at: .max, now: 0) == .taken)
    #expect(member.encode().count == 101)
  }

  /// A member of the build before has no fingerprint, and is read.
  @Test func aMemberKeepsItsDevicesFingerprint() {
    var member = ActivityMember()
    #expect(member.start(7) == .send)
    let older = member.encode()
    member.device = 0x8765_4321
    #expect(member.encode() == [0x80, 0x21, 0x43, 0x65, 0x87] + older && decoded(member.encode()) == member)
    let read: ActivityMember? = decoded(older)
    #expect(read?.device == 0)
    let none: ActivityMember? = decoded([0x80, 1, 2, 3, 4])
    #expect(none == nil)
  }

  @Test func otherBytesAreNone() {
    let none: ActivityState? = decoded([])
    let nobody: ActivityMember? = decoded([])
    let broken: [UInt8] = [1, 2, 3]
    let jobs = ActivityJobs(decoding: broken.span)
    #expect(none == nil && nobody == nil && jobs == nil)
    var random = SeededRandom(seed: 6)
    for _ in 0..<20_000 {
      let bytes = (0..<random.next() % 60).map { _ in UInt8(truncatingIfNeeded: random.next() % 8) }
      if let activity: ActivityState = decoded(bytes) { #expect(decoded(activity.encode()) == activity) }
      if let member: ActivityMember = decoded(bytes) { #expect(decoded(member.encode()) == member) }
    }
  }

  private func decoded(_ bytes: [UInt8]) -> ActivityState? { ActivityState(decoding: bytes.span) }
  private func decoded(_ bytes: [UInt8]) -> ActivityMember? { ActivityMember(decoding: bytes.span) }
}
