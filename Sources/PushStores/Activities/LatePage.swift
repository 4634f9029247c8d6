import PushCore

/// The push of an activity's newest state to one device, whose update token came late.
struct LatePage {
  private(set) var body: [UInt8] = []
  let id: [UInt8]
  /// Names the token too, in its high half: another one has a push of its own.
  let apnsID: UUIDValue

  /// - Parameters:
  ///   - job: parsed: the newest update or end, as it was sent.
  ///   - device: its id.
  ///   - cancelled: the revision whose cancel owes it the push: an earlier one of the same state may have an outcome; 0: its token came late.
  init(
    _ job: borrowing PushJob, to device: String, ordinal: UInt32, fingerprint: UInt32, token: [UInt8],
    after cancelled: UInt32 = 0
  ) {
    PageWriter.append(job, late: device, ordinal: ordinal, fingerprint: fingerprint, to: &body)
    let name = Array(job.bytes[job.id.range]) + Array("/late/\(device)".utf8)
    let token = Array(Hex.text(token).utf8)
    let first = UUIDValue.apnsID(page: name.span, lateToken: token.span, revision: job.revision)
    apnsID = UUIDValue(high: first.high, low: first.low ^ UInt64(cancelled))
    id = name
  }
}
