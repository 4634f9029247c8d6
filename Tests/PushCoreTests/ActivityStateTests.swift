import PushCore
import Testing

/// The life of an activity: each line of a test is an event and what follows from it.
@Suite final class ActivityStateTests {
  private var activity: ActivityState?
  private var member: ActivityMember?
  private var jobs = ActivityJobs()
  private static let zero: Int64 = 1_796_000_000_000
  private static let second: Int64 = zero / 1_000
  private static let hour: Int64 = 3_600_000

  private func start(_ job: UInt64 = 1, digest: UInt64 = 7, at: Int64 = 0) throws -> ActivityRevision {
    try ActivityState.start(
      &activity, type: "RideAttributes", digest: digest, job: job, jobs: &jobs, now: Self.zero + at)
  }

  private func update(_ job: UInt64, at: Int64) throws -> ActivityState.Revised {
    try ActivityState.revise(&activity, isEnd: false, job: job, jobs: &jobs, now: Self.zero + at)
  }

  private func end(_ job: UInt64, at: Int64) throws -> ActivityState.Revised {
    try ActivityState.revise(&activity, isEnd: true, job: job, jobs: &jobs, now: Self.zero + at)
  }

  private func begin(_ number: UInt32, at: Int64) -> ActivityState.Revised {
    ActivityState.begin(&activity, number: number, now: Self.zero + at)
  }

  private func register(_ token: [UInt8], at: Int64, now: Int64? = nil) -> ActivityState.Registered {
    ActivityState.register(&activity, &member, token: token, at: Self.zero + at, now: Self.zero + (now ?? at))
  }

  private func phase(at: Int64) -> ActivityState.Phase? { activity?.phase(now: Self.zero + at) }

  private func revision(_ number: UInt32, second: Int64) -> ActivityRevision {
    ActivityRevision(number: number, timestamp: Self.second + second)
  }

  @Test func itStartsBecomesActiveAndEnds() throws {
    #expect(try start() == revision(1, second: 0))
    #expect(phase(at: 0) == .starting && activity?.attributesType == "RideAttributes")
    #expect(register([1], at: 900) == .stored, "it shows what it was started with")
    #expect(phase(at: 900) == .active)
    #expect(try update(2, at: 5_000) == .begun(revision(2, second: 5)))
    #expect(try end(3, at: 9_000) == .begun(revision(3, second: 9)))
    #expect(phase(at: 9_000) == .ended)
    #expect(throws: ActivityRefusal.ended) { try update(4, at: 10_000) }
    #expect(throws: ActivityRefusal.ended) { try start(6, at: 10_000) }
    #expect(phase(at: 9 * Self.hour) == .ended, "not expired: it ended before")
  }

  /// Its pushes may have reached nobody: nothing tells a state that it was.
  @Test func anEndIsSentAgainByAnotherJob() throws {
    _ = try start()
    _ = register([1], at: 900)
    #expect(try end(2, at: 5_000) == .begun(revision(2, second: 5)))
    #expect(resolve(.init(revision: 2)) == .send([1], registeredAt: Self.zero + 900))
    #expect(try end(3, at: 9_000) == .begun(revision(3, second: 9)))
    #expect(resolve(.init(revision: 3)) == .send([1], registeredAt: Self.zero + 900))
    #expect(resolve(.init(revision: 2)) == .superseded(by: 3, [1]), "the first one's page comes late")
    #expect(phase(at: 9_000) == .ended)
    #expect(throws: ActivityRefusal.ended) { try update(4, at: 10_000) }
    #expect(throws: ActivityRefusal.ended, "the system has ended it") { try end(5, at: 9 * Self.hour) }
  }

  @Test func itExpiresEightHoursAfterItsStart() throws {
    _ = try start()
    #expect(phase(at: 8 * Self.hour - 1) == .starting)
    #expect(phase(at: 8 * Self.hour) == .expired)
    #expect(throws: ActivityRefusal.expired) { try update(2, at: 8 * Self.hour) }
    #expect(throws: ActivityRefusal.expired) { try start(3, at: 8 * Self.hour) }
    #expect(register([1], at: 8 * Self.hour) == .ignored)
    #expect(activity?.forgottenAt == Self.zero + 12 * Self.hour)
  }

  @Test func anUnknownIDTakesNoUpdate() throws {
    #expect(throws: ActivityRefusal.unknown) { try update(1, at: 0) }
    #expect(throws: ActivityRefusal.unknown) { try end(1, at: 0) }
    #expect(begin(1, at: 0) == .superseded(number: 1, by: 1))
    #expect(activity == nil)
  }

  /// A copy of it that comes once the activity is known has the same end.
  @Test func aRefusedJobStaysRefused() throws {
    #expect(throws: ActivityRefusal.unknown) { try update(1, at: 0) }
    #expect(throws: ActivityRefusal.unknown) { try update(1, at: 1) }
    #expect(throws: ActivityRefusal.unknown) { try end(2, at: 2) }
    _ = try start(3, at: 1_000)
    #expect(throws: ActivityRefusal.unknown) { try end(2, at: 2_000) }
    #expect(try update(4, at: 2_000) == .begun(revision(2, second: 2)))
    #expect(throws: ActivityRefusal.unknown) { try update(1, at: 3_000) }
    #expect(try update(4, at: 3_000) == .begun(revision(2, second: 2)))
    var members: [ActivityMember?] = [nil]
    let now = Self.zero + 3_000
    #expect(throws: ActivityRefusal.unknown) {
      try ActivityState.leave(&activity, &members, job: 2, jobs: &jobs, now: now)
    }
    #expect(members == [nil])
  }

  /// An update token made it known, so it has no revision.
  @Test func aRefusedJobStaysRefusedWhereTheAppStartedTheActivity() throws {
    var members: [ActivityMember?] = [nil]
    func leave(_ job: UInt64) throws -> ActivityState.Revised {
      try ActivityState.leave(&activity, &members, job: job, jobs: &jobs, now: Self.zero + 2_000)
    }
    #expect(throws: ActivityRefusal.unknown) { try leave(1) }
    #expect(throws: ActivityRefusal.unknown) { try update(2, at: 0) }
    #expect(register([1], at: 1_000) == .stored)
    for job in [1, 2] as [UInt64] { #expect(throws: ActivityRefusal.unknown) { try update(job, at: 2_000) } }
    #expect(throws: ActivityRefusal.unknown) { try leave(1) }
    #expect(try update(3, at: 2_000) == .begun(revision(1, second: 2)))
    #expect(try update(3, at: 2_500) == .begun(revision(1, second: 2)))
  }

  /// Refused jobs and revisions share one list.
  @Test func manyRefusedJobsLeaveRoomForRevisions() throws {
    let count = UInt64(ActivityJobs.countMaximum)
    for job in 1...count + 1 { #expect(throws: ActivityRefusal.unknown) { try update(job, at: 0) } }
    _ = try start(0, at: 0)
    #expect(throws: ActivityRefusal.unknown) { try update(count + 1, at: 1_000) }
    #expect(try update(1, at: 1_000) == .begun(revision(2, second: 1)), "forgotten: it counts as new")
    #expect(try update(1, at: 1_500) == .begun(revision(2, second: 1)))
  }

  @Test func anAppMayStartItItself() throws {
    #expect(register([], at: 0) == .ignored, "nothing is over that never was")
    #expect(register([1], at: 0, now: 8 * Self.hour) == .ignored, "its activity has expired")
    #expect(activity == nil)
    #expect(register([1], at: 0, now: 2_000) == .stored)
    #expect(phase(at: 2_000) == .active && activity?.createdAt == Self.zero, "no later than the device said so")
    #expect(try update(1, at: 3_000) == .begun(revision(1, second: 3)))
    // A start later adopts it; the device is a member and is not started. It is older than the update, for those that it starts.
    #expect(try start(2, at: 3_100) == revision(2, second: 2))
    #expect(activity?.newerThanStart == revision(1, second: 3))
    #expect(activity?.resolveStart(2, &member, now: Self.zero + 3_200) == .skipped(.started))
    #expect(phase(at: 3_200) == .active && activity?.content?.revision == revision(1, second: 3))
    #expect(try update(3, at: 3_200) == .waits(revision(3, second: 4), milliseconds: 800))
  }

  @Test func aStartIsTakenAgainWithItsOwnPayloadOnly() throws {
    let first = try start(1)
    #expect(try start(1, at: 10) == first, "the same job")
    #expect(try start(2, at: 20) == first, "another audience")
    #expect(throws: ActivityRefusal.otherPayload) { try start(3, digest: 8, at: 30) }
    #expect(try update(4, at: 40) == .waits(revision(2, second: 1), milliseconds: 960))
    #expect(try start(5, at: 50) == first)
  }

  @Test func theClockTakesOneUpdateASecond() throws {
    _ = try start()
    #expect(try update(2, at: 100) == .waits(revision(2, second: 1), milliseconds: 900))
    #expect(try update(3, at: 300) == .waits(revision(3, second: 1), milliseconds: 700), "its timestamp was not sent")
    #expect(begin(2, at: 1_000) == .superseded(number: 2, by: 3))
    #expect(begin(3, at: 990) == .waits(revision(3, second: 1), milliseconds: 10))
    #expect(begin(3, at: 1_000) == .begun(revision(3, second: 1)))
    #expect(begin(3, at: 1_010) == .begun(revision(3, second: 1)), "it came again")
    #expect(try update(4, at: 1_020) == .waits(revision(4, second: 2), milliseconds: 980))
    #expect(try end(5, at: 1_500) == .waits(revision(5, second: 2), milliseconds: 500))
    #expect(begin(4, at: 2_000) == .superseded(number: 4, by: 5))
    #expect(begin(5, at: 2_000) == .begun(revision(5, second: 2)))
  }

  @Test func timestampsGrowWhenTheClockGoesBack() throws {
    _ = try start(at: 60_000)
    #expect(try update(2, at: 52_000) == .waits(revision(2, second: 61), milliseconds: 9_000))
    #expect(begin(2, at: 61_000) == .begun(revision(2, second: 61)))
    #expect(try update(3, at: 90_000) == .begun(revision(3, second: 90)))
  }

  /// A worker whose clock was hours ahead numbered an update: the next ones do not wait for hours.
  @Test func noUpdateWaitsForAClockThatWasWrong() throws {
    _ = try start(at: 6 * Self.hour)
    #expect(try update(2, at: 0) == .begun(revision(2, second: 6 * 3_600 + 1)))
    #expect(try update(3, at: 100) == .begun(revision(3, second: 6 * 3_600 + 2)), "newer than what devices show")
  }

  @Test func aJobThatComesAgainGetsItsRevision() throws {
    _ = try start()
    #expect(try update(2, at: 5_000) == .begun(revision(2, second: 5)))
    #expect(try update(2, at: 9_000) == .begun(revision(2, second: 5)))
    #expect(try update(3, at: 9_000) == .begun(revision(3, second: 9)))
    #expect(try update(2, at: 9_500) == .superseded(number: 2, by: 3), "never newer than what came after it")
    #expect(try end(4, at: 20_000) == .begun(revision(4, second: 20)))
    #expect(try end(4, at: 21_000) == .begun(revision(4, second: 20)))
    #expect(try update(3, at: 22_000) == .superseded(number: 3, by: 4))
  }

  @Test func jobsAreRememberedBounded() throws {
    _ = try start()
    for job in 2...UInt64(ActivityJobs.countMaximum + 2) { _ = try update(job, at: Int64(job) * 1_000) }
    let now = Int64(ActivityJobs.countMaximum + 10) * 1_000
    #expect(try update(3, at: now) == .superseded(number: 3, by: UInt32(ActivityJobs.countMaximum + 2)))
    guard case .begun(let revision) = try update(2, at: now) else {
      Issue.record("too long ago: it counts as new")
      return
    }
    #expect(revision.number == UInt32(ActivityJobs.countMaximum + 3))
  }

  // MARK: - Late tokens

  @Test func aLateTokenGetsTheNewestOnce() throws {
    _ = try start()
    _ = try update(2, at: 5_000)
    let push = ActivityState.Push(revision: 2, isLate: true)
    #expect(register([1], at: 6_000) == .late(revision(2, second: 5), isLeave: false))
    #expect(
      register([1], at: 6_000) == .late(revision(2, second: 5), isLeave: false), "its reader died before it published")
    #expect(resolve(push) == .send([1], registeredAt: Self.zero + 6_000))
    #expect(resolve(.init(revision: 2)) == .skipped(.sentAlready), "the push to all finds that it has its own")
    #expect(register([1], at: 6_000) == .stored)
    #expect(register([1], at: 7_000) == .stored, "the app says it at every launch")
    #expect(resolve(push) == .send([1], registeredAt: Self.zero + 7_000), "its lane died")
    _ = try update(3, at: 8_000)
    #expect(resolve(.init(revision: 3)) == .send([1], registeredAt: Self.zero + 7_000))
    #expect(resolve(push) == .superseded(by: 3, [1]))
  }

  @Test func aLateTokenOfAnUpdateThatWaitsTakesItsTimestamp() throws {
    _ = try start()
    #expect(try update(2, at: 100) == .waits(revision(2, second: 1), milliseconds: 900))
    #expect(register([1], at: 200) == .late(revision(2, second: 1), isLeave: false))
    #expect(try update(3, at: 300) == .waits(revision(3, second: 2), milliseconds: 1_700), "no timestamp twice")
    #expect(begin(2, at: 1_000) == .superseded(number: 2, by: 3))
  }

  @Test func aLateTokenAfterTheEndGetsTheEnd() throws {
    _ = try start()
    _ = try end(2, at: 5_000)
    #expect(register([1], at: 6_000) == .late(revision(2, second: 5), isLeave: false))
    #expect(resolve(.init(revision: 2, isLate: true)) == .send([1], registeredAt: Self.zero + 6_000))
  }

  @Test func aNewTokenGetsTheNewestAgain() throws {
    _ = register([1], at: 0)
    _ = try update(1, at: 1_000)
    #expect(resolve(.init(revision: 1)) == .send([1], registeredAt: Self.zero))
    #expect(register([1], at: 2_000) == .stored)
    #expect(register([2], at: 3_000) == .late(revision(1, second: 1), isLeave: false))
    #expect(register([1], at: 2_500) == .ignored, "the newest registration wins")
    #expect(resolve(.init(revision: 1, isLate: true)) == .send([2], registeredAt: Self.zero + 3_000))
  }

  // MARK: - Redis was restored to a time before

  @Test func pushOfALostRevision_standsInNoNewerOnesWay() throws {
    func push(_ number: UInt32, _ second: Int64) -> ActivityState.Push {
      .init(revision: number, timestamp: Self.second + second)
    }
    let send = ActivityState.Resolved.send([1], registeredAt: Self.zero)
    _ = register([1], at: 0)
    _ = try update(1, at: 1_000)
    #expect(resolve(push(1, 1)) == send)
    let kept = (activity, member, jobs)
    _ = try update(2, at: 3_000)
    _ = try update(3, at: 5_000)
    #expect(resolve(push(3, 5)) == send && resolve(push(2, 3)) == .superseded(by: 3, [1]))
    (activity, member, jobs) = kept
    #expect(resolve(push(3, 5)) == send && resolve(push(2, 3)) == send, "nobody knows what came in between")
    #expect(try update(4, at: 8_000) == .begun(revision(2, second: 8)))
    #expect(resolve(push(3, 5)) == .superseded(by: 2, [1]) && resolve(push(2, 3)) == .superseded(by: 2, [1]))
    #expect(resolve(push(2, 8)) == send)
    #expect(resolve(push(1, 1)) == .superseded(by: 2, [1]))
    #expect(activity?.isOvertaken(3, timestamp: Self.second + 5) == true, "its broadcast")
    #expect(activity?.isOvertaken(2, timestamp: Self.second + 8) == false)
    #expect(try end(5, at: 9_000) == .begun(revision(3, second: 9)))
    #expect(resolve(push(3, 5)) == .superseded(by: 3, [1]))
    #expect(resolve(push(3, 9)) == send)
  }

  @Test func lostEndForOneDevice_isSent() throws {
    _ = register([1], at: 0)
    _ = try update(1, at: 1_000)
    let leave = ActivityState.Push(revision: 2, timestamp: Self.second + 3, isLeave: true)
    #expect(resolve(leave) == .send([1], registeredAt: Self.zero))
    #expect(try update(2, at: 5_000) == .begun(revision(2, second: 5)))
    #expect(resolve(leave) == .send([1], registeredAt: Self.zero), "updates do not matter to it")
    let update = ActivityState.Push(revision: 2, timestamp: Self.second + 5)
    #expect(resolve(update) == .send([1], registeredAt: Self.zero))
  }

  /// Two revisions with one timestamp: a device keeps the first.
  @Test func timestampOfALostRevision_isNotGivenAgain() throws {
    _ = register([1], at: 0)
    activity?.pass(Self.second + 5)
    #expect(try update(1, at: 5_900) == .waits(revision(1, second: 6), milliseconds: 100))
    activity?.pass(Self.second + 4)
    #expect(try update(2, at: 7_000) == .begun(revision(2, second: 7)))
  }

  // MARK: - Devices that leave

  @Test func anEndForSomeIsNoNewState() throws {
    _ = try start()
    _ = register([1], at: 500)
    var members = [member, nil]
    let leave = revision(2, second: 5)
    for now in [5_000, 6_000] as [Int64] {
      let answer = try ActivityState.leave(&activity, &members, job: 2, jobs: &jobs, now: Self.zero + now)
      #expect(answer == .begun(leave))
    }
    member = members[0]
    #expect(member?.status == .left && members[1]?.status == .left)
    #expect(try update(3, at: 7_000) == .begun(revision(3, second: 7)))
    #expect(resolve(.init(revision: 3)) == .skipped(.left))
    #expect(resolve(.init(revision: 2, isLeave: true)) == .send([1], registeredAt: Self.zero + 500))
    // One whose token comes late is sent its end, and none of the updates.
    member = members[1]
    #expect(register([2], at: 8_000) == .late(leave, isLeave: true))
    #expect(resolve(.init(revision: 2, isLate: true, isLeave: true)) == .send([2], registeredAt: Self.zero + 8_000))
    #expect(activity?.resolveStart(1, &member, now: Self.zero + 9_000) == .skipped(.started))
  }

  /// A worker died after it had marked the devices that left, before their end was published. Its job comes again, behind others.
  @Test func anEndForSomeThatComesAgainIsSent() throws {
    _ = try start()
    _ = register([1], at: 500)
    var (first, second) = ([member], [ActivityMember?.none])
    _ = try ActivityState.leave(&activity, &first, job: 2, jobs: &jobs, now: Self.zero + 5_000)
    _ = try ActivityState.leave(&activity, &second, job: 3, jobs: &jobs, now: Self.zero + 6_000)
    #expect(try end(4, at: 7_000) == .begun(revision(4, second: 7)))
    let again = try ActivityState.leave(&activity, &first, job: 2, jobs: &jobs, now: Self.zero + 8_000)
    #expect(again == .begun(revision(5, second: 8)))
    member = first[0]
    #expect(resolve(.init(revision: 4)) == .skipped(.left))
    #expect(resolve(.init(revision: 5, isLeave: true)) == .send([1], registeredAt: Self.zero + 500))
    let another = try ActivityState.leave(&activity, &first, job: 5, jobs: &jobs, now: Self.zero + 9_000)
    #expect(another == .begun(revision(6, second: 9)), "none of the others may have reached it")
    #expect(throws: ActivityRefusal.ended) {
      try ActivityState.leave(&activity, &first, job: 6, jobs: &jobs, now: Self.zero + 9 * Self.hour)
    }
    #expect(throws: ActivityRefusal.expired) {
      try ActivityState.leave(&activity, &first, job: 3, jobs: &jobs, now: Self.zero + 9 * Self.hour)
    }
  }

  /// What a job that is only counted would be told.
  @Test func itIsKnownWhatItWouldRefuse() throws {
    func refusal(_ startDigest: UInt64?, isEnd: Bool = false, at: Int64) -> ActivityRefusal? {
      ActivityState.refusal(activity, startDigest: startDigest, isEnd: isEnd, now: Self.zero + at)
    }
    #expect(refusal(nil, at: 0) == .unknown && refusal(7, at: 0) == nil)
    _ = try start()
    #expect(refusal(nil, at: 1) == nil && refusal(7, at: 1) == nil && refusal(8, at: 1) == .otherPayload)
    #expect(refusal(nil, at: 8 * Self.hour) == .expired && refusal(7, at: 8 * Self.hour) == .expired)
    _ = try end(2, at: 5_000)
    #expect(refusal(nil, at: 6_000) == .ended && refusal(7, at: 6_000) == .ended)
    #expect(refusal(nil, isEnd: true, at: 6_000) == nil)
  }

  @Test func olderStatesAreDroppedOnceItHasEnded() throws {
    _ = register([1], at: 0)
    _ = try update(1, at: 1_000)
    _ = try end(2, at: 3_000)
    #expect(resolve(.init(revision: 1)) == .superseded(by: 2, [1]), "though the end was not sent to it yet")
    #expect(resolve(.init(revision: 2)) == .send([1], registeredAt: Self.zero))
    #expect(activity?.resolve(.init(revision: 2), &member, now: Self.zero + 8 * Self.hour) == .skipped(.over))
    // What was sent to a token that is not known any more is no concern of a page that comes now.
    #expect(register([], at: 4_000) == .over)
    #expect(resolve(.init(revision: 1)) == .skipped(.over))
  }

  private func resolve(_ push: ActivityState.Push) -> ActivityState.Resolved? {
    activity?.resolve(push, &member, now: Self.zero + 10_000)
  }
}
