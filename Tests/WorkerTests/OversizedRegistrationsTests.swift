import PushCore
import Testing

@testable import PushStores

/// Registrations whose bytes are not kept, while their dead letters are not taken.
@Suite struct OversizedRegistrationsTests {
  private func delivery(_ tag: UInt64) -> RegistrationDelivery {
    RegistrationDelivery(
      number: tag, epoch: 1, tag: tag, metadata: MessageMetadata(), body: [], isOversized: true, registration: nil,
      refusal: .init(reason: .invalid, detail: "too large"))
  }

  /// One is returned each second; without a pause once one is taken.
  @Test func oneAtATimeIsReturned() {
    var oversized = OversizedRegistrations()
    func due(_ milliseconds: Int64) -> UInt64? { oversized.due(now: at(milliseconds))?.tag }
    func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }
    #expect(due(0) == nil && oversized.count == 0)
    for tag in 1...3 as ClosedRange<UInt64> { oversized.hold(delivery(tag), now: at(0)) }
    #expect(due(999) == nil && due(1_000) == 1 && oversized.count == 3)
    oversized.returned(now: at(1_000))
    #expect(due(1_999) == nil && due(2_000) == 2 && oversized.count == 2)
    // It came back, and was refused.
    oversized.hold(delivery(4), now: at(1_500))
    #expect(due(2_499) == nil && due(2_500) == 2)
    oversized.returned(now: at(2_500))
    oversized.taken()
    #expect(due(2_501) == 3)
  }
}
