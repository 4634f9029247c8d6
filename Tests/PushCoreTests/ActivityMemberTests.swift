import Testing

@testable import PushCore

/// What an activity is to one device: each line is an event and what follows from it.
@Suite struct ActivityMemberTests {
  @Test func itIsStartedOnce() {
    var member = ActivityMember()
    #expect(member.start(1) == .send)
    #expect(member.status == .starting && member.start?.at == 0)
    #expect(member.start(1) == .send, "the same start came again")
    #expect(member.start(2) == .skipped(.started))
    var isFree = member.startEnded(1, isAlert: false, hasReached: true, now: 5_000)
    #expect(!isFree && member.status == .started && member.start?.at == 5)
    #expect(member.start(1) == .send, "another copy of it")
    #expect(member.start(2) == .skipped(.started))
    #expect(member.register([9], at: 8_000, now: 1_000) == .taken)
    #expect(member.status == .live)
    #expect(member.start(1) == .superseded, "it has arrived")
    isFree = member.startEnded(1, isAlert: false, hasReached: false, now: 9_000)
    #expect(!isFree && member.status == .live)
  }

  @Test func aStartThatWasSurelyNotAcceptedMayBeFollowed() {
    var member = ActivityMember()
    func ended(_ job: UInt64, isAlert: Bool = false) -> Bool {
      member.startEnded(job, isAlert: isAlert, hasReached: false, now: 5_000)
    }
    #expect(member.start(1) == .send)
    #expect(ended(2) == false, "another start's end")
    #expect(ended(1, isAlert: true) == false, "it was no alert")
    #expect(member.start(2) == .skipped(.started))
    #expect(ended(1) == true, "whoever keeps the member deletes it")
    member = ActivityMember()
    #expect(member.start(2) == .send)
    #expect(ended(1) == false, "its end is told again")
    #expect(member.register([9], at: 1, now: 1_000) == .taken)
    #expect(ended(2) == false, "it has arrived, whatever APNs said")
  }

  /// Copies of a push end in any order, and each end may be told twice: what reached APNs once stays.
  @Test func whatReachedAPNsStays() {
    for hasReached in [[true, false], [true, true, false, false], [true, false, true]] {
      var member = ActivityMember()
      #expect(member.start(1) == .send)
      for (number, has) in hasReached.enumerated() {
        let isFree = member.startEnded(1, isAlert: false, hasReached: has, now: 9_000 + Int64(number) * 1_000)
        #expect(!isFree)
      }
      #expect(member.status == .started && member.start?.at == 9 && member.start(2) == .skipped(.started))
    }
    var early = ActivityMember()
    #expect(early.start(1) == .send)
    let isFree = early.startEnded(1, isAlert: false, hasReached: true, now: 1)
    #expect(!isFree && early.status == .started, "in the first second of 1970")
  }

  @Test func nobodyIsStartedAndAlerted() {
    var member = ActivityMember()
    #expect(member.start(1, isAlert: true) == .send)
    #expect(member.status == .starting)
    let isFree = member.startEnded(1, isAlert: true, hasReached: true, now: 5_000)
    #expect(!isFree && member.status == .alerted && member.start?.at == 5)
    #expect(member.start(1, isAlert: true) == .send, "the same alert came again")
    #expect(member.start(1) == .skipped(.started), "it got a start token since")
    #expect(member.start(2) == .skipped(.started))
    #expect(member.start(2, isAlert: true) == .skipped(.started))
    #expect(member.register([9], at: 8_000, now: 1_000) == .taken)
    #expect(member.status == .live, "its app started the activity itself")
    var other = ActivityMember()
    #expect(other.start(1) == .send)
    #expect(other.start(1, isAlert: true) == .skipped(.started), "it lost its start token since")
  }

  @Test func theNewestRegistrationStays() {
    let registrations: [(token: [UInt8], at: Int64)] = [
      ([1], 10), ([2], 20), ([3], 20), ([], 20), ([4], 30), ([5], 30), ([5], 30), ([1], 5), ([], 25),
    ]
    var random = SeededRandom(seed: 3)
    for _ in 0..<500 {
      var member = ActivityMember()
      for registration in registrations.shuffled(using: &random) + registrations.prefix(3) {
        _ = member.register(registration.token, at: registration.at, now: 1_000)
      }
      #expect(member.token == [5] && member.changedAt == 30)
    }
  }

  @Test func overIsNotForEver() {
    var member = ActivityMember()
    #expect(member.register([1], at: 10, now: 1_000) == .taken)
    #expect(member.register([], at: 20, now: 1_000) == .over)
    #expect(member.status == .over)
    #expect(member.resolve(.init(revision: 1)) == .skipped(.over))
    #expect(member.start(1) == .skipped(.started), "whoever swiped it away does not get it again")
    #expect(member.register([1], at: 20, now: 1_000) == .older)
    #expect(member.register([1], at: 21, now: 1_000) == .taken)
    #expect(member.claim(1) == true)
  }

  @Test func aTokenThatIsNoneIsOver() {
    var member = ActivityMember()
    #expect(member.register([1], at: 10, now: 1_000) == .taken)
    #expect(member.unregistered([2], at: 50, now: 1_000) == false, "another token's end")
    #expect(member.unregistered([1], at: 9, now: 1_000) == false, "registered since")
    #expect(member.unregistered([1], at: 10, now: 1_000) == true)
    #expect(member.status == .over)
    #expect(member.unregistered([1], at: 10, now: 1_000) == false)
    #expect(member.register([1], at: 10, now: 1_000) == .older)
    #expect(member.unregistered([1], at: 60, now: 1_000) == true)
    #expect(member.register([1], at: 60, now: 1_000) == .older, "registered before APNs said so")
    #expect(member.register([2], at: 30, now: 1_000) == .taken, "another token is no concern of it")
    #expect(member.register([1], at: 61, now: 1_000) == .taken)
    #expect(member.status == .live)
  }

  @Test func aTimeThatIsStillToComeGivesWay() {
    var member = ActivityMember()
    let hour: Int64 = 3_600_000
    #expect(member.register([1], at: 2 * hour, now: hour) == .taken, "by a clock that is an hour ahead")
    #expect(member.unregistered([1], at: hour + 1, now: hour + 1) == true)
    #expect(member.register([1], at: 2 * hour, now: hour + 2) == .taken)
    #expect(member.register([2], at: hour + 3, now: hour + 3) == .taken)
    #expect(member.token == [2] && member.changedAt == hour + 3)
    // Two clocks that differ by seconds: an older registration comes once more.
    #expect(member.register([3], at: hour + 5_000, now: hour + 4) == .taken)
    #expect(member.register([2], at: hour + 3, now: hour + 5) == .older)
    #expect(member.token == [3])
  }

  @Test func aDeviceWithoutATokenWaits() {
    var member = ActivityMember()
    #expect(member.start(1) == .send)
    #expect(member.resolve(.init(revision: 2)) == .skipped(.noToken))
    #expect(member.sent == 0)
  }

  @Test func anOlderRevisionNeverFollowsANewer() {
    var member = ActivityMember()
    #expect(member.register([1], at: 10, now: 1_000) == .taken)
    #expect(member.resolve(.init(revision: 2)) == .send([1], registeredAt: 10))
    #expect(member.resolve(.init(revision: 1)) == .superseded(by: 2, [1]))
    #expect(member.resolve(.init(revision: 2)) == .send([1], registeredAt: 10), "it is tried again")
    for (revision, isClaimed) in [(2, false), (1, false), (3, true)] as [(UInt32, Bool)] {
      #expect(member.claim(revision) == isClaimed)
    }
    #expect(member.resolve(.init(revision: 3, isLate: true)) == .send([1], registeredAt: 10))
    #expect(member.resolve(.init(revision: 3)) == .skipped(.sentAlready))
    #expect(member.resolve(.init(revision: 2)) == .superseded(by: 3, [1]))
  }

  /// A worker ended after it had sent the push: the page's next delivery asks for its outcome, as long as its token is known.
  @Test func whatMayHaveBeenSentIsAskedFor() {
    var member = ActivityMember()
    #expect(member.register([1], at: 10, now: 1_000) == .taken)
    #expect(member.resolve(.init(revision: 2)) == .send([1], registeredAt: 10))
    #expect(member.unregistered([1], at: 20, now: 1_000) == true)
    #expect(member.resolve(.init(revision: 2)) == .superseded(by: 2, [1]))
    #expect(member.resolve(.init(revision: 3)) == .skipped(.over), "this one was not sent to it")
    #expect(member.register([], at: 30, now: 1_000) == .over)
    #expect(member.resolve(.init(revision: 2)) == .skipped(.over), "its token is not known any more")
  }

  /// A job that ended the activity for some devices came twice, and has pages with two revisions: the newer one sends, and tells the end.
  @Test func ofTwoPagesOfALeaveTheNewerOneTells() {
    var member = ActivityMember()
    #expect(member.register([1], at: 10, now: 1_000) == .taken)
    member.leave(3)
    let older = ActivityState.Push(revision: 3, isLeave: true)
    var newer = ActivityState.Push(revision: 7, isLeave: true)
    #expect(member.resolve(older) == .send([1], registeredAt: 10))
    #expect(member.resolve(newer) == .send([1], registeredAt: 10))
    var known = older
    known.newestOfJob = 7
    #expect(member.resolve(known) == .elsewhere)
    known.isOver = true
    #expect(member.resolve(known) == .superseded(by: 7, [1]), "nobody told it in time")
    known.isOver = false
    known.newestOfJob = 3
    #expect(member.resolve(known) == .superseded(by: 7, [1]), "another job's")
    // APNs knows the token no more: what the newer page is answered, it still tells itself.
    var gone = member
    let isGone = gone.unregistered([1], at: 20, now: 2_000)
    #expect(isGone)
    var told = newer
    told.newestOfJob = 7
    known.newestOfJob = 7
    #expect(gone.resolve(known) == .elsewhere)
    #expect(gone.resolve(told) == .superseded(by: 7, [1]))
    // A late push is in no summary: the page tells its own end.
    newer.revision = 8
    newer.isLate = true
    known.newestOfJob = 8
    #expect(member.resolve(newer) == .send([1], registeredAt: 10))
    #expect(member.resolve(known) == .superseded(by: 8, [1]))
  }

  /// What a page took, and nobody may have sent: not what is for a late page, is over, or got a newer revision.
  @Test func aPageTakesWhatItIsToSend() {
    var member = ActivityMember()
    #expect(member.register([1], at: 10, now: 1_000) == .taken)
    let push = ActivityState.Push(revision: 3)
    #expect(!member.isTaken(by: push))
    #expect(member.resolve(push) == .send([1], registeredAt: 10))
    #expect(
      member.isTaken(by: push) && !member.isTaken(by: .init(revision: 2)) && !member.isTaken(by: .init(revision: 4)))
    var left = member
    left.leave(3)
    #expect(!left.isTaken(by: push) && left.isTaken(by: .init(revision: 3, isLeave: true)))
    var gone = member
    let isGone = gone.unregistered([1], at: 20, now: 2_000)
    #expect(isGone && !gone.isTaken(by: push))
    #expect(member.resolve(.init(revision: 4, isLate: true)) == .send([1], registeredAt: 10))
    #expect(!member.isTaken(by: .init(revision: 4)), "the late page has it")
    #expect(member.register([2], at: 30, now: 3_000) == .taken)
    #expect(!member.isTaken(by: push), "another token")
  }

  @Test func aStartThatArrivedIsAskedFor() throws {
    var jobs = ActivityJobs()
    var activity: ActivityState?
    _ = try ActivityState.start(&activity, type: "Ride", digest: 1, job: 1, jobs: &jobs, now: 1_000)
    var member: ActivityMember?
    var other: ActivityMember?
    #expect(activity?.resolveStart(1, &member, now: 2_000) == .send)
    _ = ActivityState.register(&activity, &member, token: [1], at: 3_000, now: 3_000)
    #expect(activity?.resolveStart(1, &member, now: 4_000) == .superseded)
    #expect(activity?.resolveStart(2, &member, now: 4_000) == .skipped(.started))
    _ = try ActivityState.revise(&activity, isEnd: true, job: 3, jobs: &jobs, now: 5_000)
    #expect(activity?.resolveStart(1, &member, now: 6_000) == .superseded)
    #expect(activity?.resolveStart(1, &other, now: 6_000) == .skipped(.over))
  }

  /// Its time is over before anything is sent: another start has the device at once, and its end is not this one's.
  @Test(arguments: [true, false]) func aStartThatIsNotSentTakesNoDevice(isAlert: Bool) throws {
    var jobs = ActivityJobs()
    var activity: ActivityState?
    _ = try ActivityState.start(&activity, type: "Ride", digest: 1, job: 1, jobs: &jobs, now: 1_000)
    var member: ActivityMember?
    #expect(activity?.resolveStart(1, isAlert: isAlert, isOver: true, &member, now: 2_000) == .send, "for its outcome")
    #expect(member == nil)
    #expect(activity?.resolveStart(2, isAlert: isAlert, &member, now: 3_000) == .send)
    let starting = member
    #expect(activity?.resolveStart(1, isAlert: isAlert, isOver: true, &member, now: 4_000) == .skipped(.started))
    #expect(activity?.resolveStart(2, isAlert: isAlert, isOver: true, &member, now: 4_000) == .send)
    #expect(member == starting && member?.status == .starting, "a copy of it may be on its way")
  }

  @Test func ofAClaimAndAPageTheFirstOneSends() {
    var member = ActivityMember()
    #expect(member.register([1], at: 10, now: 1_000) == .taken)
    for revision: UInt32 in [2, 3] {
      let isPageFirst = revision == 2
      let late = ActivityState.Push(revision: revision, isLate: true)
      let page = ActivityState.Push(revision: revision)
      #expect(member.claim(revision) == true)
      let over = ActivityState.Push(revision: revision, isOver: true)
      #expect(member.resolve(over) == .skipped(.sentAlready), "a page that is not sent leaves it to the late push")
      for _ in 0..<2 {
        #expect(member.resolve(isPageFirst ? page : late) == .send([1], registeredAt: 10))
        #expect(member.resolve(isPageFirst ? late : page) == .skipped(.sentAlready))
      }
      #expect(member.claim(revision) == false, "it is on its way")
    }
  }
}
