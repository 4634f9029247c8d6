import PushCore
import Testing

/// What an activity goes on from after a cancelled update or end.
@Suite struct ActivityPastTests {
  private static let zero: Int64 = 1_796_000_000_000
  private static let start = ActivityPast.Entry(phase: .starting, contentState: [9])

  private func entry(_ number: UInt8, isEnd: Bool = false) -> ActivityPast.Entry {
    ActivityPast.Entry(
      phase: isEnd ? .ended : .active, place: Int64(number) * 7, isEnd: isEnd, body: [number],
      contentState: [number, 1])
  }

  private func decoded(_ past: ActivityPast) -> ActivityPast? {
    let bytes = past.encode()
    return ActivityPast(decoding: bytes.span)
  }

  /// A few are kept, the newest first, and read as they were written.
  @Test func theLastOnesAreKept() {
    var past = ActivityPast()
    #expect(past.encode().isEmpty && decoded(past) == past)
    past.append(Self.start, before: 0, newest: 2)
    #expect(past.last(before: 2) == Self.start && past.last(before: 3) == nil)
    past.append(entry(2), before: 2, newest: 3)
    // Nothing of 3 was sent.
    past.append(nil, before: 3, newest: 4)
    #expect(past.last(before: 4) == entry(2) && past.last(before: 3) == nil && decoded(past) == past)
    past.append(entry(4), before: 4, newest: 5)
    past.append(entry(5, isEnd: true), before: 5, newest: 6)
    #expect(decoded(past) == past)
    past.remove { $0 == [4] }
    past.tookBack(newest: 7)
    #expect(past.last(before: 7) == entry(2), "4 was cancelled, too")
    past.tookBack(newest: 8)
    #expect(past.last(before: 8) == nil, "the oldest is forgotten")
  }

  /// An older version of Herald stored an update: what is here was before that.
  @Test func whatAnotherVersionLeftOutIsNotTakenBack() {
    var past = ActivityPast()
    past.append(Self.start, before: 0, newest: 2)
    #expect(past.last(before: 3) == nil)
    past.append(entry(3), before: 3, newest: 4)
    past.tookBack(newest: 5)
    #expect(past.last(before: 5) == nil)
    for broken: [UInt8] in [[2, 0, 0, 0, 0], [1, 0], [1, 0, 0, 0, 0, 1], entryWithoutState] {
      #expect(ActivityPast(decoding: broken.span) == nil, "\(broken)")
    }
  }

  private var entryWithoutState: [UInt8] {
    var past = ActivityPast()
    past.append(entry(2), before: 0, newest: 3)
    return Array(past.encode().dropLast())
  }

  /// As a newer revision than the cancelled one: whoever counts as having that is sent it.
  @Test func aCancelledUpdateIsTakenBack() throws {
    var activity: ActivityState?
    var jobs = ActivityJobs()
    var member: ActivityMember?
    _ = try ActivityState.start(&activity, type: "Ride", digest: 7, job: 1, jobs: &jobs, now: Self.zero)
    _ = ActivityState.register(&activity, &member, token: [1], at: Self.zero + 1, now: Self.zero + 1)
    let order = JobOrder(sequence: 5, timestamp: nil, point: 0)
    _ = try ActivityState.revise(&activity, isEnd: false, order: order, job: 2, jobs: &jobs, now: Self.zero + 5_000)
    let sent = activity?.resolve(.init(revision: 2), &member, now: Self.zero + 5_000)
    #expect(sent == .send([1], registeredAt: Self.zero + 1))
    #expect(
      member?.isOwed(3, insteadOf: 2, gaveWay: false) == true && member?.isOwed(2, insteadOf: 2, gaveWay: true) == false
    )
    let isOwed = [false, true].map { member?.isOwed(4, insteadOf: 3, gaveWay: $0) }
    #expect(isOwed == [false, true], "its push may have given way to revision 3, which is cancelled")
    let before = ActivityPast.Entry(phase: .active, place: 3, body: [1], contentState: [])
    let revision = activity?.takeBack(to: before, isLive: true, jobs: &jobs, now: Self.zero + 6_000)
    #expect(revision == ActivityRevision(number: 3, timestamp: Self.zero / 1_000 + 6))
    #expect(activity?.content?.place == 3 && activity?.content?.isBegun == true)
    #expect(jobs.isTakenBack(3, last: 3) && !jobs.isTakenBack(2, last: 3))
    let isClaimed = member?.claim(3)
    #expect(isClaimed == true && member?.isOwed(3, insteadOf: 2, gaveWay: false) == true, "until it was published")
    let late = activity?.resolve(.init(revision: 3, isLate: true), &member, now: Self.zero + 6_000)
    #expect(late == .send([1], registeredAt: Self.zero + 1) && member?.isOwed(3, insteadOf: 2, gaveWay: false) == false)
    // A duplicate of the cancelled job, and the next one.
    let again = try ActivityState.revise(
      &activity, isEnd: false, order: order, job: 2, jobs: &jobs, now: Self.zero + 7_000)
    #expect(again == .superseded(number: 2, by: 3))
    let older = JobOrder(sequence: 4, timestamp: nil, point: 0)
    let next = try ActivityState.revise(
      &activity, isEnd: false, order: older, job: 3, jobs: &jobs, now: Self.zero + 9_000)
    #expect(next == .begun(ActivityRevision(number: 4, timestamp: Self.zero / 1_000 + 9)))
  }

  @Test func aCancelledEndIsTakenBack() throws {
    var activity: ActivityState?
    var jobs = ActivityJobs()
    _ = try ActivityState.start(&activity, type: "Ride", digest: 7, job: 1, jobs: &jobs, now: Self.zero)
    _ = try ActivityState.revise(&activity, isEnd: true, job: 2, jobs: &jobs, now: Self.zero + 5_000)
    #expect(activity?.phase(now: Self.zero + 5_000) == .ended)
    let isRevised = activity?.takeBack(to: Self.start, isLive: true, jobs: &jobs, now: Self.zero + 6_000) != nil
    #expect(!isRevised && activity?.content == nil, "there was only its start")
    #expect(activity?.phase(now: Self.zero + 6_000) == .active, "a token came meanwhile")
    let next = try ActivityState.revise(&activity, isEnd: false, job: 3, jobs: &jobs, now: Self.zero + 9_000)
    #expect(next == .begun(ActivityRevision(number: 3, timestamp: Self.zero / 1_000 + 9)))
  }

  @Test func aJobIsWrittenAgainAsAnotherRevision() {
    let body =
      #"{"revision":12,"id":"u1","payload":{"aps":{"timestamp":17,"event":"update","content-state":{"n":12}}}}"#
    let again = ActivityJobWriter.again(Array(body.utf8), as: ActivityRevision(number: 345, timestamp: 1_796_000_001))
    let wanted = body.replacing("revision\":12", with: "revision\":345").replacing("17", with: "1796000001")
    #expect(again.map { String(decoding: $0, as: UTF8.self) } == wanted)
    for other in [#"{"id":"u1","revision":12}"#, #"{"revision":"#, "", #"{"revision":1}"#] {
      #expect(
        ActivityJobWriter.again(Array(other.utf8), as: ActivityRevision(number: 3, timestamp: 4)) == nil, "\(other)")
    }
  }
}
