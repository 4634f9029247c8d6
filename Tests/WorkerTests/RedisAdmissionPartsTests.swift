import PushCore
import Testing

@testable import PushLane

/// The parts of the Redis admission store that need no Redis.
@Suite struct RedisAdmissionPartsTests {
  private typealias Entry = RedisAdmissionQueue.Entry

  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  private func entry(_ number: UInt32, deadline: Int64 = 20) -> Entry {
    Entry(
      kind: .admission, ticket: Ticket(index: number, generation: 0), deadline: at(deadline), request: Entry.noRequest)
  }

  private func numbers(_ entries: [Entry]?) -> [UInt32]? { entries?.map(\.ticket.index) }

  @Test func earlyAdmissionsWaitUntilRedisIsSettled() {
    var early = EarlyAdmissions()
    early.append(entry(1))
    early.append(entry(2))
    #expect(numbers(early.take(isSettled: false, maximumMilliseconds: 100, now: at(0))) == nil)
    #expect(early.deadline == at(100) && !early.isOver)
    #expect(numbers(early.take(isSettled: true, maximumMilliseconds: 100, now: at(50))) == [1, 2])
    #expect(early.isOver)
  }

  @Test func earlyAdmissionsWaitForSoLongOnly() {
    var early = EarlyAdmissions()
    #expect(numbers(early.take(isSettled: false, maximumMilliseconds: 100, now: at(0))) == nil)
    early.append(entry(1))
    #expect(numbers(early.take(isSettled: false, maximumMilliseconds: 100, now: at(99))) == nil)
    #expect(numbers(early.take(isSettled: false, maximumMilliseconds: 100, now: at(100))) == [1])
    var hurried = EarlyAdmissions()
    hurried.hurry(now: at(5))
    #expect(numbers(hurried.take(isSettled: false, maximumMilliseconds: 100, now: at(5))) == [])
  }

  /// 5 ms, then as long as it has waited, at most 100 ms and never past its deadline.
  @Test func aSlotBetweenTwoNodesIsAskedForAtGrowingIntervals() {
    var redirects = RedisRedirects(timeoutMilliseconds: 300)
    let postponed = entry(1, deadline: 300)
    var times: [Int64] = []
    var now: Int64 = 0
    while redirects.postpone(postponed, now: at(now)) {
      guard let next = redirects.next else { break }
      #expect(redirects.takeDue(now: Instant(nanoseconds: next.nanoseconds - 1)).isEmpty)
      #expect(numbers(redirects.takeDue(now: next)) == [1])
      now = next.milliseconds(since: at(0))
      times.append(now)
    }
    #expect(times == [5, 10, 20, 40, 80, 160, 260, 300])
    #expect(redirects.next == nil)
  }

  @Test func aCommandIsSentAgainSoOften() {
    var last = entry(1)
    for _ in 0..<RedisRedirects.resendsMaximum {
      guard let again = last.again else {
        Issue.record("not after \(last.resends)")
        return
      }
      last = again
    }
    #expect(last.again == nil)
  }

  @Test func whatIsDecidedWithoutRedisKeepsItsPlace() {
    var queue = RedisAdmissionQueue()
    queue.append(entry(1))
    queue.append(Entry(kind: .probe, request: Entry.noRequest))
    queue.append(entry(2))
    #expect(queue.takeUnanswered()?.ticket.index == 1)
    #expect(queue.takeUnanswered()?.ticket.index == 2)
    #expect(queue.takeUnanswered() == nil)
    #expect(queue.count == 3, "their replies still come")
    #expect(queue.popFirst()?.isAnswered == true)
    queue.append(entry(3))
    #expect(queue.takeUnanswered()?.ticket.index == 3)
  }

  @Test func eachChangeIsReportedOnce() {
    var notices = AdmissionNotices()
    notices.note(trouble: nil)
    #expect(notices.next() == nil)
    notices.note(trouble: "away")
    notices.note(trouble: "refuses")
    notices.note(trouble: nil)
    #expect(notices.next() == .degraded(reason: "away"))
    #expect(notices.next() == .recovered)
    notices.note(SilenceState.Stretch(milliseconds: 300, decidedCount: 2))
    #expect(notices.next() == .silent(SilenceState.Stretch(milliseconds: 300, decidedCount: 2)))
    #expect(notices.next() == nil)
  }

  @Test func answersAreTakenInOrder() {
    var answers = AdmissionAnswers()
    for number in UInt32(0)..<3 { answers.append(Ticket(index: number, generation: 0), .proceed) }
    for number in UInt32(0)..<3 { #expect(answers.take()?.ticket.index == number) }
    #expect(answers.take() == nil)
    answers.append(Ticket(index: 9, generation: 0), .proceed)
    #expect(answers.take()?.ticket.index == 9)
  }
}
