/// How a registration, a 410 and a forget change a device. Pure: the caller stores the result only if the record is
/// unchanged.
///
/// The later time wins. But a known time in the future (from an app's server with a wrong clock) yields to a present
/// one: otherwise the device would ignore changes until then, and could not be forgotten.
package enum DeviceChange {
  package enum Outcome: Hashable, Sendable {
    /// A newer registration is known.
    case older
    /// The registration cannot be applied to this device.
    case refused(JobError)
    /// - loser: the device that had the alert token before, without it.
    case changed(DeviceRecord, loser: DeviceRecord?)
  }

  /// - Parameters:
  ///   - at: the registration's time, Unix milliseconds.
  ///   - now: Unix milliseconds.
  ///   - record: its device; nil: a new one.
  ///   - holder: another device with the registration's alert token.
  ///   - fingerprint: random; of the record, if it is a new one.
  package static func registering(
    _ registration: DeviceRegistration, at: Int64, now: Int64, onto record: DeviceRecord?, holder: DeviceRecord? = nil,
    fingerprint: UInt32
  ) -> Outcome {
    if let record, isLater(record.at, than: at, now: now) { return .older }
    let increments = record.map { $0.at == at ? $0.incrementFingerprints : [] } ?? []
    let isRepeated = increments.contains(registration.fingerprint)
    var next = record ?? DeviceRecord(id: registration.device, at: at)
    if record == nil { next.fingerprint = fingerprint }
    next.at = at
    change(&next.user, registration.user)
    change(&next.locale, registration.locale)
    change(&next.osVersion, registration.osVersion)
    change(&next.timeZone, registration.timeZone)
    let loser = changeToken(&next, registration.token, at: at, now: now, holder: holder)
    changeStartTokens(&next, registration, at: at)
    if let error = changeTags(&next, registration, isRepeated: isRepeated) { return .refused(error) }
    next.incrementFingerprints = increments
    if registration.hasIncrement, !isRepeated {
      next.incrementFingerprints.append(registration.fingerprint)
      next.incrementFingerprints.removeFirst(max(0, increments.count + 1 - DeviceLimits.incrementsMaximum))
    }
    return .changed(next, loser: loser)
  }

  /// A token got a 410. nil: the device does not have it, or registered it later.
  /// - Parameter at: when the token became unregistered, by APNs' clock.
  package static func losing(_ token: [UInt8], at: Int64, now: Int64, from record: DeviceRecord) -> DeviceRecord? {
    func isLost(_ own: DeviceRecord.Token) -> Bool { own.bytes == token && !isLater(own.at, than: at, now: now) }
    var next = record
    if let own = next.token, isLost(own) { next.token = nil }
    next.startTokens.removeAll { isLost($0.token) }
    guard next != record else { return nil }
    let gone = DeviceRecord.GoneToken(token, at: at)
    next.goneTokens.removeAll { $0.fingerprint == gone.fingerprint }
    next.goneTokens.append(gone)
    next.goneTokens.removeFirst(max(0, next.goneTokens.count - DeviceLimits.goneTokensMaximum))
    return next
  }

  /// Whether a forget at this time removes the device: it was not seen later.
  package static func forgets(_ record: DeviceRecord, at: Int64, now: Int64) -> Bool {
    !isLater(record.at, than: at, now: now)
  }

  /// Whether the known time wins over the new one.
  private static func isLater(_ known: Int64, than at: Int64, now: Int64) -> Bool {
    known > at && !(known > now && at <= now)
  }

  // MARK: - Fields

  private static func change<Value>(_ field: inout Value?, _ change: FieldChange<Value>) {
    switch change {
    case .keep: break
    case .remove: field = nil
    case .set(let value): field = value
    }
  }

  /// - Returns: the holder without the token.
  private static func changeToken(
    _ record: inout DeviceRecord, _ change: FieldChange<[UInt8]>, at: Int64, now: Int64, holder: DeviceRecord?
  ) -> DeviceRecord? {
    switch change {
    case .keep:
      return nil
    case .remove:
      record.token = nil
      return nil
    case .set(let bytes):
      // Another device registered this token later. This device has replaced its old token, so it has none now.
      let isHeldByNewer = holder?.token.map { $0.bytes == bytes && isLater($0.at, than: at, now: now) } ?? false
      guard !isHeldByNewer, revive(bytes, &record, at: at) else {
        record.token = nil
        return nil
      }
      record.token = DeviceRecord.Token(bytes: bytes, at: at)
      guard var loser = holder, loser.token?.bytes == bytes else { return nil }
      loser.token = nil
      return loser
    }
  }

  private static func changeStartTokens(_ record: inout DeviceRecord, _ registration: DeviceRegistration, at: Int64) {
    if registration.removesStartTokens { record.startTokens = [] }
    for change in registration.startTokens {
      record.startTokens.removeAll { $0.type == change.type }
      guard let bytes = change.token, revive(bytes, &record, at: at) else { continue }
      record.startTokens.append(
        DeviceRecord.StartToken(type: change.type, token: DeviceRecord.Token(bytes: bytes, at: at)))
    }
    record.startTokens.sort { $0.type < $1.type }
  }

  /// Whether a token registered at this time is alive: no 410 is as late. Removes a live token from the gone ones.
  private static func revive(_ token: [UInt8], _ record: inout DeviceRecord, at: Int64) -> Bool {
    guard !record.goneTokens.isEmpty else { return true }
    let fingerprint = DeviceRecord.GoneToken.fingerprint(of: token)
    guard let index = record.goneTokens.firstIndex(where: { $0.fingerprint == fingerprint }) else { return true }
    guard record.goneTokens[index].at < at else { return false }
    record.goneTokens.remove(at: index)
    return true
  }

  private static func changeTags(
    _ record: inout DeviceRecord, _ registration: DeviceRegistration, isRepeated: Bool
  ) -> JobError? {
    if registration.removesTags { record.tags = [] }
    if registration.tags.isEmpty { return nil }
    var tags: [String: TagValue] = [:]
    for tag in record.tags { tags[tag.name] = tag.value }
    for tag in registration.tags {
      let known = tags.removeValue(forKey: tag.name)
      switch tag.change {
      case .set(let value):
        tags[tag.name] = value
      case .remove:
        break
      case .increment where isRepeated:
        // This registration added it before.
        tags[tag.name] = known
      case .increment(let addend):
        let field = "tags.\(JobError.describe(tag.name))"
        var sum = addend
        if let known {
          guard case .number(let number) = known else {
            return JobError(field: field, rule: "cannot be incremented: this device's is no number")
          }
          sum += number
        }
        guard sum.isFinite else { return JobError(field: field, rule: "cannot be incremented any further") }
        tags[tag.name] = .number(sum)
      }
    }
    guard tags.count <= DeviceLimits.tagsMaximum else {
      return JobError(
        field: "tags", rule: "must leave the device at most \(DeviceLimits.tagsMaximum) tags, not \(tags.count)")
    }
    record.tags = tags.map { DeviceRecord.Tag(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
    return nil
  }
}
