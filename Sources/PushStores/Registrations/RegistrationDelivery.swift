import PushCore
import PushIO
import PushLane

/// One message of the registration queue, from its receipt to its acknowledgement.
final class RegistrationDelivery {
  /// Why it becomes a dead letter.
  struct Refusal: Equatable {
    enum Reason {
      case invalid
      /// The registry cannot store it, although it is valid.
      case failed
      /// It was delivered too often.
      case redelivered

      var word: StaticString {
        switch self {
        case .invalid: "invalid"
        case .failed: "failed"
        case .redelivered: "redelivered"
        }
      }
    }

    var reason: Reason
    var detail: String
  }

  /// In delivery order.
  let number: UInt64
  let epoch: UInt32
  let tag: UInt64
  let metadata: MessageMetadata
  let body: [UInt8]
  /// The body is not kept: see `OversizedRegistrations`.
  let isOversized: Bool
  /// nil: it is refused.
  let registration: PushCore.Registration?
  var refusal: Refusal?
  /// It has begun, and takes part of its app's share.
  var hasShare = false

  init(
    number: UInt64, epoch: UInt32, tag: UInt64, metadata: MessageMetadata, body: [UInt8], isOversized: Bool,
    registration: PushCore.Registration?, refusal: Refusal?
  ) {
    self.number = number
    self.epoch = epoch
    self.tag = tag
    self.metadata = metadata
    self.body = body
    self.isOversized = isOversized
    self.registration = registration
    self.refusal = refusal
  }
}

/// The registrations of one app that Redis did not store, and all later ones.
struct RegistrationWait {
  let scope: AppScope
  var backoff: Backoff
  var held: [RegistrationDelivery] = []
  /// nil: they are being stored again.
  var retryAt: Instant?
  /// Redis did not store the last one, for any app perhaps.
  var isForRedis = false
}
