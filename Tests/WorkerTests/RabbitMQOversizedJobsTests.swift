import PushCore
import Testing

@testable import PushLane

/// A job that is too large waits for the confirm of its dead letter.
@Suite struct RabbitMQOversizedJobsTests {
  private let tag = DeliveryTag(epoch: 1, jobClass: .bulk, value: 7)
  private let now = Instant(nanoseconds: 0)

  @Test func itIsReportedOnceItsDeadLetterIsConfirmed() {
    var jobs = RabbitMQOversizedJobs()
    #expect(!jobs.isWaiting && jobs.due == nil)
    _ = jobs.met(tag, bodyCount: 9, now: now)
    #expect(jobs.isWaiting && jobs.due?.tag == tag && jobs.due?.bodyCount == 9)
    jobs.published(1)
    #expect(jobs.isWaiting && jobs.due == nil && !jobs.isDecided(tag))
    jobs.confirmed(9...9)
    #expect(jobs.isWaiting, "that is another's number")
    jobs.confirmed(1...1)
    #expect(!jobs.isWaiting && jobs.isDecided(tag))
    let hadOne = jobs.settled(tag)
    let hasOne = jobs.settled(tag)
    #expect(hadOne && !hasOne)
  }

  /// A refused, returned or lost dead letter is published again, and a late confirm is ignored.
  @Test func whatTheBrokerDidNotTakeIsPublishedAgain() {
    var jobs = RabbitMQOversizedJobs()
    _ = jobs.met(tag, bodyCount: 9, now: now)
    jobs.published(1)
    #expect(jobs.refused(2...9, now: now) == nil)
    #expect(jobs.refused(1...1, now: now) == true)
    #expect(jobs.isWaiting && jobs.due == nil, "not at once")
    jobs.tryAgain()
    #expect(jobs.due?.tag == tag)
    jobs.published(2)
    #expect(jobs.refused(2...2, now: now) == true)
    jobs.confirmed(2...2)
    #expect(jobs.isWaiting && !jobs.isDecided(tag))
    jobs.tryAgain()
    jobs.published(3)
    jobs.publisherLost()
    #expect(jobs.due?.tag == tag)
    jobs.published(1)
    jobs.confirmed(1...1)
    #expect(jobs.isDecided(tag))
  }

  @Test func whatIsNotOursAnyMoreIsForgotten() {
    var jobs = RabbitMQOversizedJobs()
    _ = jobs.met(tag, bodyCount: 9, now: now)
    jobs.published(1)
    jobs.consumerLost()
    jobs.confirmed(1...1)
    #expect(!jobs.isWaiting && !jobs.isDecided(tag))
    _ = jobs.met(tag, bodyCount: 9, now: now)
    jobs.stopped()
    jobs.tryAgain()
    #expect(!jobs.isWaiting && jobs.due == nil)
  }

  /// The dead letter is never confirmed: the delivery is reported without one, and the broker moves it.
  @Test func whatWaitsForTooLongIsGivenUp() {
    var jobs = RabbitMQOversizedJobs()
    _ = jobs.met(tag, bodyCount: 9, now: now)
    jobs.published(1)
    let isGivenUp = jobs.giveUp(tag, now: now)
    #expect(isGivenUp)
    #expect(!jobs.isWaiting && jobs.isDecided(tag))
    jobs.confirmed(1...1)
    let isCopied = jobs.settled(tag)
    #expect(!isCopied, "it has no dead letter of ours")
    #expect(!jobs.isDecided(tag))
    let waits = jobs.giveUp(tag, now: now)
    #expect(!waits)
  }

  /// All other deliveries wait behind each: only the first one waits for long. One in ten seconds is tried, until one is taken.
  @Test func afterOneThatWasGivenUp_theNextAreAtOnce() {
    var jobs = RabbitMQOversizedJobs()
    func tag(_ number: UInt64) -> DeliveryTag { DeliveryTag(epoch: 1, jobClass: .bulk, value: number) }
    func meet(_ number: UInt64, after milliseconds: Int64) -> Int64? {
      jobs.met(tag(number), bodyCount: 9, now: now.adding(milliseconds: milliseconds))
    }
    #expect(meet(1, after: 0) == 5_000)
    let isGivenUp = jobs.giveUp(tag(1), now: now.adding(milliseconds: 5_000))
    #expect(isGivenUp)
    for number in 2...100 as ClosedRange<UInt64> { #expect(meet(number, after: 5_000 + Int64(number) * 90) == nil) }
    #expect(!jobs.isWaiting && jobs.isDecided(tag(2)) && jobs.due == nil)
    let isCopied = jobs.settled(tag(2))
    #expect(!isCopied, "the broker moves it")
    #expect(meet(101, after: 15_000) == 1_000, "it is tried, and waits for a second at most")
    jobs.published(7)
    #expect(jobs.refused(7...7, now: now.adding(milliseconds: 15_010)) == false, "not again")
    #expect(!jobs.isWaiting && jobs.isDecided(tag(101)))
    #expect(meet(102, after: 25_009) == nil)
    #expect(meet(103, after: 25_010) == 1_000)
    jobs.published(8)
    jobs.confirmed(8...8)
    #expect(meet(104, after: 25_020) == 5_000, "dead letters are taken again")
  }
}
