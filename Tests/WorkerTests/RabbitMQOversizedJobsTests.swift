import PushCore
import Testing

@testable import PushLane

/// A job that is too large waits for the confirm of its dead letter.
@Suite struct RabbitMQOversizedJobsTests {
  private let tag = DeliveryTag(epoch: 1, jobClass: .bulk, value: 7)

  @Test func itIsReportedOnceItsDeadLetterIsConfirmed() {
    var jobs = RabbitMQOversizedJobs()
    #expect(!jobs.isWaiting && jobs.due == nil)
    jobs.met(tag, bodyCount: 9)
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
    jobs.met(tag, bodyCount: 9)
    jobs.published(1)
    #expect(jobs.refused(2...9) == false)
    #expect(jobs.refused(1...1) == true)
    #expect(jobs.isWaiting && jobs.due == nil, "not at once")
    jobs.tryAgain()
    #expect(jobs.due?.tag == tag)
    jobs.published(2)
    #expect(jobs.refused(2...2) == true)
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
    jobs.met(tag, bodyCount: 9)
    jobs.published(1)
    jobs.consumerLost()
    jobs.confirmed(1...1)
    #expect(!jobs.isWaiting && !jobs.isDecided(tag))
    jobs.met(tag, bodyCount: 9)
    jobs.stopped()
    jobs.tryAgain()
    #expect(!jobs.isWaiting && jobs.due == nil)
  }

  /// The dead letter is never confirmed: the delivery is reported without one, and the broker moves it.
  @Test func whatWaitsForTooLongIsGivenUp() {
    var jobs = RabbitMQOversizedJobs()
    jobs.met(tag, bodyCount: 9)
    jobs.published(1)
    let isGivenUp = jobs.giveUp(tag)
    #expect(isGivenUp)
    #expect(!jobs.isWaiting && jobs.isDecided(tag))
    jobs.confirmed(1...1)
    let isCopied = jobs.settled(tag)
    #expect(!isCopied, "it has no dead letter of ours")
    #expect(!jobs.isDecided(tag))
    let waits = jobs.giveUp(tag)
    #expect(!waits)
  }
}
