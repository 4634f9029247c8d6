/// How a registration changes a device's tags: each by its own time, in whichever order registrations come.
///
/// A tag's last set or removal counts, and the increments since then: those with its time count as later.
extension DeviceRecord {
  /// - Returns: why the registration cannot be applied.
  mutating func changeTags(_ registration: DeviceRegistration, _ time: RegistrationTime) -> JobError? {
    if registration.removesTags, let error = removeTags(time) { return error }
    if registration.tags.isEmpty { return nil }
    for tag in registration.tags {
      let error =
        switch tag.change {
        case .set(let value): setTag(tag.name, value, time)
        case .remove: removeTag(tag.name, time)
        case .increment(let addend): incrementTag(tag.name, addend, registration.fingerprint, time)
        }
      if let error { return error }
    }
    guard tags.count <= DeviceLimits.tagsMaximum else {
      return JobError(
        field: "tags", rule: "must leave the device at most \(DeviceLimits.tagsMaximum) tags, not \(tags.count)")
    }
    tags.sort { ByteText($0.name) < ByteText($1.name) }
    return nil
  }

  private mutating func setTag(_ name: String, _ value: TagValue, _ time: RegistrationTime) -> JobError? {
    guard !time.isOlder(than: times.tagsRemoval), time.isNewer(than: removal(ofTag: name)) else { return nil }
    let index = index(ofTag: name)
    var tag = index.map { tags[$0] } ?? Tag(name: name, value: value, at: nil)
    switch time.order(to: tag.at) {
    case .older: return nil
    case .same where !tag.valueBeforeIncrements.isLess(than: value): return nil
    case .same, .newer: break
    }
    tag.at = time.at
    if let error = tag.rebase(on: value, from: time.at) { return error }
    if let index { tags[index] = tag } else { tags.append(tag) }
    removedTags.removeAll { $0.name.hasBytes(of: name) }
    return nil
  }

  private mutating func removeTag(_ name: String, _ time: RegistrationTime) -> JobError? {
    guard !time.isOlder(than: times.tagsRemoval), time.isNewer(than: removal(ofTag: name)) else { return nil }
    if let index = index(ofTag: name) {
      guard !time.isOlder(than: tags[index].at) else { return nil }
      if let error = removeTag(at: index, time) { return error }
    }
    removedTags.removeAll { $0.name.hasBytes(of: name) }
    removedTags.append(Removal(name: name, at: time.at))
    return nil
  }

  /// Removes all tags that were set before. Those of the same time stay.
  private mutating func removeTags(_ time: RegistrationTime) -> JobError? {
    guard time.isNewer(than: times.tagsRemoval) else { return nil }
    for index in tags.indices.reversed() where time.isNewer(than: tags[index].at) {
      if let error = removeTag(at: index, time) { return error }
    }
    times.tagsRemoval = time.at
    removedTags.removeAll { $0.at < time.at }
    return nil
  }

  /// Later increments make the tag anew.
  private mutating func removeTag(at index: Int, _ time: RegistrationTime) -> JobError? {
    tags[index].at = nil
    if let error = tags[index].rebase(on: .number(0), from: time.at) { return error }
    if tags[index].increments.isEmpty { tags.remove(at: index) }
    return nil
  }

  /// Removes all tags, removals and increments that are not later than this.
  mutating func forgetTags(_ time: RegistrationTime) {
    for index in tags.indices.reversed() {
      if let set = tags[index].at {
        if !time.covers(set) { continue }
        tags[index].at = nil
      }
      tags[index].forgetIncrements(time)
      if tags[index].increments.isEmpty { tags.remove(at: index) }
    }
    removedTags.removeAll { time.covers($0.at) }
  }

  private mutating func incrementTag(
    _ name: String, _ addend: Double, _ fingerprint: UInt32, _ time: RegistrationTime
  ) -> JobError? {
    // One of the last forgotten one's time may be that one, delivered again.
    guard time.isNewer(than: times.increments), !time.isOlder(than: times.tagsRemoval),
      !time.isOlder(than: removal(ofTag: name))
    else { return nil }
    let index = index(ofTag: name)
    var tag = index.map { tags[$0] } ?? Tag(name: name, value: .number(0), at: nil)
    // A registration that was delivered before, or one that a later one replaces.
    if time.isOlder(than: tag.at) { return nil }
    if tag.increments.contains(where: { $0.at == time.at && $0.fingerprint == fingerprint }) { return nil }
    // Of another value it is remembered only: a registration between the two, which comes later, may set a number.
    if case .number(let number) = tag.value {
      guard (number + addend).isFinite else { return tag.error("cannot be incremented any further") }
      tag.value = .number(number + addend)
    }
    let place = tag.increments.lastIndex { $0.at <= time.at }.map { $0 + 1 } ?? 0
    tag.increments.insert(Increment(at: time.at, addend: addend, fingerprint: fingerprint), at: place)
    if let index { tags[index] = tag } else { tags.append(tag) }
    return nil
  }

  private func index(ofTag name: String) -> Int? { tags.firstIndex { $0.name.hasBytes(of: name) } }
  private func removal(ofTag name: String) -> Int64? { removedTags.first { $0.name.hasBytes(of: name) }?.at }

  // MARK: - What is remembered

  /// Forgets removals and increments that are a day older than the newest registration, and the oldest of too many.
  mutating func forgetOldChanges() {
    let horizon = at &- DeviceLimits.changesRememberedMilliseconds
    func keep(_ time: inout Int64?, while isAbsent: Bool = true) {
      if isAbsent, let known = time, known < horizon { time = nil }
    }
    forgetOldOwners(before: horizon)
    keep(&times.user, while: user == nil)
    keep(&times.locale, while: locale == nil)
    keep(&times.osVersion, while: osVersion == nil)
    keep(&times.timeZone, while: timeZone == nil)
    keep(&times.tokenRemoval)
    keep(&times.startTokensRemoval)
    keep(&times.tagsRemoval)
    DeviceRecord.forgetOld(&removedTags, before: horizon)
    DeviceRecord.forgetOld(&removedStartTokens, before: horizon)
    forgetOldIncrements(before: horizon)
  }

  private static func forgetOld(_ removals: inout [Removal], before horizon: Int64) {
    if removals.isEmpty { return }
    removals.removeAll { $0.at < horizon }
    if removals.count > DeviceLimits.removalsMaximum {
      removals.sort { $0.at < $1.at }
      removals.removeFirst(removals.count - DeviceLimits.removalsMaximum)
    }
    removals.sort { ByteText($0.name) < ByteText($1.name) }
  }

  private mutating func forgetOldIncrements(before horizon: Int64) {
    var count = 0
    for tag in tags { count += tag.increments.count }
    while count > 0 {
      // Each tag's are ascending.
      var oldest: Int?
      for (index, tag) in tags.enumerated() {
        guard let first = tag.increments.first else { continue }
        if let known = oldest.flatMap({ tags[$0].increments.first }), known.at <= first.at { continue }
        oldest = index
      }
      guard let oldest else { return }
      let time = tags[oldest].increments[0].at
      guard time < horizon || count > DeviceLimits.incrementsMaximum else { return }
      tags[oldest].increments.removeFirst()
      times.increments = max(times.increments ?? time, time)
      count -= 1
    }
  }
}

extension DeviceRecord.Tag {
  /// What the last registration that set it said, as far as its increments are remembered.
  fileprivate var valueBeforeIncrements: TagValue {
    guard case .number(let number) = value else { return value }
    return .number(increments.reduce(number) { $0 - $1.addend })
  }

  /// A registration of this time gives the tag another value: later increments are added to it, earlier ones not.
  fileprivate mutating func rebase(on value: TagValue, from at: Int64) -> JobError? {
    increments.removeAll { $0.at < at }
    self.value = value
    guard case .number(let number) = value else { return nil }
    let sum = increments.reduce(number) { $0 + $1.addend }
    guard sum.isFinite else { return error("cannot be incremented any further") }
    self.value = .number(sum)
    return nil
  }

  /// Leaves the later increments alone.
  fileprivate mutating func forgetIncrements(_ time: RegistrationTime) {
    increments.removeAll { time.covers($0.at) }
    value = .number(increments.reduce(0) { $0 + $1.addend })
  }

  fileprivate func error(_ rule: String) -> JobError {
    JobError(field: "tags.\(JobError.describe(name))", rule: rule)
  }
}

extension TagValue {
  /// An order of all values, for changes of the same time.
  fileprivate func isLess(than other: TagValue) -> Bool {
    switch (self, other) {
    case (.text(let left), .text(let right)): ByteText(left) < ByteText(right)
    case (.flag(let left), .flag(let right)): !left && right
    case (.number(let left), .number(let right)): left < right
    case (.list(let left), .list(let right)):
      left.map(ByteText.init).lexicographicallyPrecedes(right.map(ByteText.init))
    case (.text, _), (.flag, _), (.number, _), (.list, _): rank < other.rank
    }
  }

  private var rank: Int {
    switch self {
    case .flag: 0
    case .number: 1
    case .text: 2
    case .list: 3
    }
  }
}
