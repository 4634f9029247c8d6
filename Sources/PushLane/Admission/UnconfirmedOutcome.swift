import PushCore

/// An outcome being stored in Redis, not confirmed yet.
struct UnconfirmedOutcome {
  var request: AdmissionRequest
  var outcome: RememberedOutcome
  /// Its size in Redis; known once it was sent.
  var byteCount = 0
  /// How often it was sent again.
  var resends: UInt8 = 0

  /// The outcome to send once more; nil: that was done too often.
  var again: UnconfirmedOutcome? {
    guard resends < RedisRedirects.resendsMaximum else { return nil }
    var again = self
    again.resends += 1
    return again
  }
}
