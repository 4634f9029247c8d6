import PushCore

/// Registrations that are too large, and whose dead letters were not taken: the publisher is not connected, or blocked, or their queue refuses.
///
/// Their bytes are not kept. Each keeps its delivery, until it is returned for its bytes to come again: one at a time, a second apart, and
/// without a pause as long as their dead letters, or their copies, are taken.
struct OversizedRegistrations {
  private static let pauseMilliseconds: Int64 = 1_000

  private var held: [RegistrationDelivery] = []
  /// None is returned before.
  private var nextReturn = Instant(nanoseconds: .min)

  var count: Int { held.count }

  mutating func hold(_ delivery: RegistrationDelivery, now: Instant) {
    held.append(delivery)
    nextReturn = now.adding(milliseconds: OversizedRegistrations.pauseMilliseconds)
  }

  /// The one that may be returned now.
  func due(now: Instant) -> RegistrationDelivery? { now >= nextReturn ? held.first : nil }

  /// That one was.
  mutating func returned(now: Instant) {
    held.removeFirst()
    nextReturn = now.adding(milliseconds: OversizedRegistrations.pauseMilliseconds)
  }

  /// The dead letter of one was taken, or its copy.
  mutating func taken() { nextReturn = Instant(nanoseconds: .min) }
}
