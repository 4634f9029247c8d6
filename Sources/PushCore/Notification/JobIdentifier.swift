extension UUIDValue {
  /// Herald's namespace: `66f0f2ab-a559-4457-9a4d-d3d9f5a2fb2a`, a random UUID. It never changes: producers may compute
  /// the `apns-id` of (id, target) themselves as the version-5 UUID of this namespace and the bytes of the id, a zero
  /// byte, and the bytes of the target (the token in lower case, or the channel id).
  package static let heraldNamespace = UUIDValue(high: 0x66F0_F2AB_A559_4457, low: 0x9A4D_D3D9_F5A2_FB2A)

  /// `apns-id` of one target of a job: the id itself if it is a UUID, in whatever case, and the job has one target, else the
  /// version-5 UUID of (id, target). A repeated job has the same ids.
  /// - Parameter target: index into `targets`; nil for the job as a whole, which names the outcome of an invalid job.
  package static func apnsID(for job: borrowing PushJob, target: Int?) -> UUIDValue {
    let bytes = job.bytes.span
    let id = bytes.extracting(job.id.range)
    if job.targets.count <= 1 || target == nil, let value = UUIDValue(id) ?? UUIDValue(anyCase: id) { return value }
    var hash = hash(of: id)
    if let target {
      // A page's device is identified by its ordinal, whatever its token is when the page is sent.
      let range = job.page.isEmpty ? job.targets[target] : job.page.ordinals[target]
      hash.update(bytes.extracting(range.range))
    } else if job.id.isEmpty {
      // Only its bytes identify this job.
      hash.update(bytes.extracting(0..<job.bodyCount))
    }
    return UUIDValue(version5Of: &hash)
  }

  /// `apns-id` of a late token's page, which is for this token and revision alone: a job that came twice may have two revisions.
  /// - Parameters:
  ///   - page: its id.
  ///   - token: as lower-case hex.
  package static func apnsID(page: Span<UInt8>, lateToken token: Span<UInt8>, revision: UInt32) -> UUIDValue {
    var hash = hash(of: page)
    hash.update(token)
    hash.update(byte: 0)
    hash.update(word: UInt64(revision))
    return UUIDValue(version5Of: &hash)
  }

  private static func hash(of id: Span<UInt8>) -> SHA1 {
    var hash = SHA1()
    hash.update(word: heraldNamespace.high)
    hash.update(word: heraldNamespace.low)
    hash.update(id)
    hash.update(byte: 0)
    return hash
  }
}
