import PushCore
import PushSettings
import Testing

@testable import PushLane

@Suite struct SlotTableTests {
  /// The start refuses tables that need more memory than there is.
  @Test func tablesTakeWhatTheConfigurationCountsWith() {
    let settings = LaneSettings(
      workerName: "w", prefetch: 50_000, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1,
      randomSeed: 1)
    let sends = settings.sendsMaximum + LaneSettings.isolatedSendsMaximum + settings.jobsMaximum
    let bytes = settings.jobsMaximum * MemoryLayout<JobSlot>.stride + sends * MemoryLayout<SendSlot>.stride
    let each = bytes / settings.prefetch
    let counted = Configuration.tableBytesOfDelivery
    #expect(counted <= each && each <= 2 * counted, "\(each)")
  }

  @Test func aStaleTicketNamesNobody() {
    var slots = SlotTable(capacity: 2) { 0 }
    guard let first = slots.take(), let second = slots.take() else {
      Issue.record("two slots are there to be taken")
      return
    }
    let isFull = slots.isFull
    #expect(isFull)
    slots[first] = 7
    slots.release(first)
    let isFirstLive = slots.isLive(first)
    #expect(!isFirstLive)
    guard let third = slots.take() else {
      Issue.record("a released slot is taken again")
      return
    }
    #expect(third.index == first.index)
    #expect(third != first)
    #expect(slots[third] == 7)
    let isSecondLive = slots.isLive(second)
    #expect(isSecondLive)
    let count = slots.count
    #expect(count == 2)
  }
}
