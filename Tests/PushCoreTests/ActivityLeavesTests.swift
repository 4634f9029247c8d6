import Testing

@testable import PushCore

/// What a device that left an activity is shown, when ends for some devices are cancelled.
@Suite struct ActivityLeavesTests {
  private static let zero: Int64 = 1_796_000_000_000

  private func revision(_ number: UInt32) -> ActivityRevision {
    ActivityRevision(number: number, timestamp: Self.zero / 1_000 + Int64(number))
  }

  private func member(_ leaves: UInt32...) -> ActivityMember {
    var member = ActivityMember()
    for number in leaves { member.leave(number) }
    return member
  }

  @Test func eachDeviceIsShownTheEndThatNamedIt() {
    var leaves = ActivityLeaves()
    #expect(leaves.last(of: member(1)) == nil && leaves.encode().isEmpty)
    for number: UInt32 in 1...5 { leaves.append(revision(number), [UInt8(number)]) }
    #expect(leaves.last(of: member(3))?.body == [3])
    #expect(leaves.last(of: member(2, 4))?.body == [4], "the newest of two")
    #expect(!leaves.has(1) && leaves.last(of: member(1))?.body == [5], "its own is not kept any more")
    leaves.cancel(4)
    #expect(leaves.last(of: member(2, 4))?.body == [2] && leaves.has(4), "that one was cancelled")
    for number: UInt32 in 20...24 {
      leaves.append(revision(number), [1])
      leaves.cancel(number)
    }
    #expect(leaves.last(of: member(2))?.body == [2], "cancelled ones take no place")
    leaves.append(revision(7), [7], insteadOf: 3)
    #expect(!leaves.has(3) && leaves.last(of: member(3))?.body == [7], "its job came twice")
  }

  @Test func theyAreReadAsTheyWereWritten() {
    var leaves = ActivityLeaves()
    leaves.append(revision(2), Array("{}".utf8))
    leaves.append(revision(9), [1, 2, 3])
    let bytes = leaves.encode()
    #expect(ActivityLeaves(decoding: bytes.span, only: nil) == leaves)
    for count in [2, 10, bytes.count - 1] {
      let broken = Array(bytes.prefix(count))
      #expect(ActivityLeaves(decoding: broken.span, only: nil) == nil, "\(count) bytes")
    }
    var five = [UInt8](bytes.prefix(1))
    for _ in 0..<5 { five += bytes.dropFirst().prefix(19) }
    #expect(ActivityLeaves(decoding: five.span, only: nil) == nil)
    // The build before kept the newest body alone.
    let body = Array(#"{"leave":4}"#.utf8)
    let former = ActivityLeaves(decoding: body.span, only: revision(4))
    #expect(former?.has(4) == true && former?.last(of: member(4))?.body == body)
    #expect(ActivityLeaves(decoding: body.span, only: nil) == nil)
  }

  /// Of two ends that name a device the second is cancelled: it has left all the same. And who left by the first alone is not sent the second.
  @Test func aDeviceComesBackFromWhatWasCancelledAlone() throws {
    var activity: ActivityState?
    var jobs = ActivityJobs()
    _ = try ActivityState.start(&activity, type: "Ride", digest: 7, job: 1, jobs: &jobs, now: Self.zero)
    var members: [ActivityMember?] = [nil, nil]
    _ = try ActivityState.leave(&activity, &members, job: 2, jobs: &jobs, now: Self.zero + 5_000)
    var first = [members[0]]
    _ = try ActivityState.leave(&activity, &first, job: 3, jobs: &jobs, now: Self.zero + 6_000)
    var leaves = ActivityLeaves()
    let (older, newer) = (revision(2), revision(3))
    leaves.append(older, [2])
    leaves.append(newer, [3])
    var (both, one) = (first[0], members[1])
    let ofOne = ActivityState.register(
      &activity, &one, token: [1], at: Self.zero + 7_000, leaves: leaves, now: Self.zero + 7_000)
    guard case .late(let revision, isLeave: true) = ofOne else { return #expect(Bool(false), "\(ofOne)") }
    #expect(revision.number == 2)
    let ofBoth = ActivityState.register(
      &activity, &both, token: [2], at: Self.zero + 7_000, leaves: leaves, now: Self.zero + 7_000)
    guard case .late(let revision, isLeave: true) = ofBoth else { return #expect(Bool(false), "\(ofBoth)") }
    #expect(revision.number == 3)
    leaves.cancel(3)
    both?.comeBack(from: 3)
    #expect(both?.status == .left && both.flatMap { leaves.last(of: $0)?.body } == [2] && both?.sent == 0)
    let isClaimed = both?.claim(2)
    both?.comeBack(from: 3)
    #expect(isClaimed == true && both?.sent == 2, "once more, after a crash")
    both?.comeBack(from: 2)
    #expect(both?.status == .live && both?.sent == 0)
    let bytes = try #require(one?.encode())
    #expect(ActivityMember(decoding: bytes.span) == one)
    // A member of the build before does not tell by which end it left.
    let former: [UInt8] = [8]
    let left = ActivityMember(decoding: former.span)
    #expect(left?.status == .left && left?.encode() == former && left?.leaves == [0])
  }

  /// A job that came twice has two revisions: its cancel takes both back.
  @Test func aJobThatCameTwiceIsOneEnd() throws {
    var activity: ActivityState?
    var jobs = ActivityJobs()
    _ = try ActivityState.start(&activity, type: "Ride", digest: 7, job: 1, jobs: &jobs, now: Self.zero)
    var (members, others): ([ActivityMember?], [ActivityMember?]) = ([nil], [nil])
    _ = try ActivityState.leave(&activity, &members, job: 2, jobs: &jobs, now: Self.zero + 5_000)
    _ = try ActivityState.leave(&activity, &others, job: 3, jobs: &jobs, now: Self.zero + 6_000)
    _ = try ActivityState.leave(&activity, &members, job: 2, jobs: &jobs, now: Self.zero + 7_000)
    #expect(members[0]?.leaves == [4])
  }
}
