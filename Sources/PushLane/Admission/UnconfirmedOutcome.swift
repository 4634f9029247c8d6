import PushCore

/// An outcome for Redis, on its way and not confirmed.
struct UnconfirmedOutcome {
  var request: AdmissionRequest
  var outcome: RememberedOutcome
  /// Bytes that it has in Redis; known once it was sent.
  var byteCount = 0
  /// Sent again so often.
  var resends: UInt8 = 0

  /// To be sent once more; nil: that was done too often.
  var again: UnconfirmedOutcome? {
    guard resends < RedisRedirects.resendsMaximum else { return nil }
    var again = self
    again.resends += 1
    return again
  }
}
