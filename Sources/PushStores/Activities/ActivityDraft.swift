import PushCore
import PushIO

/// An activity and some members as read, and the changes to store.
struct ActivityDraft {
  let ordinals: [UInt32]
  var activity: ActivityState?
  var jobs = ActivityJobs()
  /// In the order of `ordinals`.
  var members: [ActivityMember?]
  /// The texts were read; they are long and rarely needed.
  let hasTexts: Bool
  /// The decision needs the texts: read and decide again.
  var needsTexts = false
  /// Empty: none.
  var contentState: [UInt8] = []
  /// As it is kept: an end has no content state of others.
  var body: [UInt8] = []
  /// As it is sent.
  var newest: [UInt8] {
    activity?.content?.shownPlace == nil ? body : ActivityJobWriter.end(body, showing: contentState)
  }
  var leaves = ActivityLeaves()
  var past = ActivityPast()

  /// What the activity is before a newer update or end; nil: nobody shows that, since nothing of it was sent.
  func last(now: Int64) -> ActivityPast.Entry? {
    guard let activity, activity.content?.isBegun != false else { return nil }
    let content = activity.content
    return ActivityPast.Entry(
      phase: activity.phase(now: now), place: content?.place ?? 0, isEnd: content?.isEnd ?? false,
      body: content == nil ? [] : newest, contentState: contentState)
  }

  /// The ordinal that this token was registered for last; nil: none, or no token was asked for.
  private(set) var holder: UInt32?
  /// The decision needs this member: read it too, and decide again.
  var neededMember: UInt32?
  /// The new value of `holder`.
  var newHolder: UInt32?

  private let token: [UInt8]
  /// The fingerprints of the devices, in the order of `ordinals`; nil or no elements: not known. A member of another device is none.
  private let devices: [UInt32?]
  /// The indexes of those whose ordinal has a member of another device. It stays until one of them takes its place.
  private var others: Set<Int> = []
  private let read: [[UInt8]]
  private let readMembers: [(live: [UInt8], rest: [UInt8])]
  private let keys: ActivityKeys
  private let id: ActivityID
  /// The indexes of the members' chunks, whose keys follow the activity's.
  private let chunks: [Int]

  private static func fields(hasTexts: Bool) -> [ActivityField] { hasTexts ? ActivityField.allCases : [.state] }

  // MARK: - Reading

  /// The keys and arguments of the read.
  static func reading(
    _ id: ActivityID, _ ordinals: [UInt32], token: [UInt8], hasTexts: Bool, _ keys: ActivityKeys
  ) -> (keys: [String], arguments: RedisArguments) {
    let chunks = chunks(of: ordinals)
    let numbers = numbers(of: chunks)
    var arguments = RedisArguments()
    for field in fields(hasTexts: hasTexts) {
      arguments.append(1)
      arguments.append(field.rawValue)
    }
    for ordinal in ordinals {
      let number = numbers[OrdinalChunk.index(of: ordinal)] ?? 0
      for key in [2 + 2 * number, 3 + 2 * number] {
        arguments.append(key)
        arguments.append(place(of: ordinal))
      }
    }
    let names = [keys.activity(id)] + memberKeys(chunks, id, keys)
    if token.isEmpty { return (names, arguments) }
    let hash = DeviceRecord.GoneToken.fingerprint(of: token)
    arguments.append(names.count + 1)
    arguments.append(bytes(hash))
    return (names + [keys.tokens(hash, id)], arguments)
  }

  /// nil: Redis holds a foreign value.
  init?(
    _ id: ActivityID, _ ordinals: [UInt32], devices: [UInt32?], token: [UInt8], hasTexts: Bool, _ keys: ActivityKeys,
    reply: RedisReply
  ) {
    precondition(devices.isEmpty || devices.count == ordinals.count, "each device has a fingerprint")
    let fields = ActivityDraft.fields(hasTexts: hasTexts)
    let membersEnd = fields.count + 2 * ordinals.count
    guard case .array(let values) = reply, values.count == membersEnd + (token.isEmpty ? 0 : 1) else { return nil }
    var texts: [[UInt8]] = []
    for value in values {
      switch value {
      case .bulk(let bytes): texts.append(bytes)
      case .null: texts.append([])
      case .integer, .status, .error, .array: return nil
      }
    }
    self.id = id
    self.ordinals = ordinals
    self.devices = devices
    self.token = token
    if !token.isEmpty, texts[membersEnd].count == 4 { holder = OrdinalList.ordinal(texts[membersEnd], 0) }
    newHolder = holder
    self.hasTexts = hasTexts
    self.keys = keys
    chunks = ActivityDraft.chunks(of: ordinals)
    read = Array(texts.prefix(fields.count))
    readMembers = stride(from: fields.count, to: membersEnd, by: 2).map { (texts[$0], texts[$0 + 1]) }
    members = []
    let state = texts[0]
    if !state.isEmpty {
      guard let known = ActivityState(decoding: state.span) else { return nil }
      activity = known
    }
    if hasTexts {
      let words = texts[1]
      let before = texts[5]
      let ends = texts[4]
      guard let known = ActivityJobs(decoding: words.span), let past = ActivityPast(decoding: before.span),
        let leaves = ActivityLeaves(decoding: ends.span, only: activity?.leave)
      else { return nil }
      (jobs, contentState, body, self.leaves, self.past) = (known, texts[2], texts[3], leaves, past)
    }
    for (index, (live, rest)) in readMembers.enumerated() {
      let bytes = live.isEmpty ? rest : live
      let member = ActivityMember(decoding: bytes.span)
      guard member != nil || bytes.isEmpty else { return nil }
      let device = devices.isEmpty ? nil : devices[index]
      if let member, let device, member.device != 0, member.device != device {
        others.insert(index)
        members.append(nil)
      } else {
        members.append(member)
      }
    }
  }

  // MARK: - Storing

  /// The keys and arguments of the commit; nil: nothing changed.
  /// - Parameter now: Unix milliseconds.
  func storing(now: Int64) -> (keys: [String], arguments: RedisArguments)? {
    // Of an unknown activity, only a refused job is stored.
    guard let activity else {
      return commit(
        [change(.state, from: read[0], to: [])] + jobChanges(), chunks: [],
        expiresAt: now + ActivityState.memoryMilliseconds, now)
    }
    return commit(
      [change(.state, from: read[0], to: activity.encode())] + jobChanges() + memberChanges() + holderChanges(),
      textChanges(),
      chunks: chunks, since: isNew ? activity.createdAt : nil, expiresAt: activity.forgottenAt, now)
  }

  /// - Parameter since: when the activity became known; nil: it is in the index, or is not known.
  private func commit(
    _ changes: [Change], _ writes: [(ActivityField, [UInt8])] = [], chunks: [Int], since: Int64? = nil,
    expiresAt: Int64, _ now: Int64
  ) -> (keys: [String], arguments: RedisArguments)? {
    guard changes.contains(where: { $0.old != $0.new }) || !writes.isEmpty else { return nil }
    var arguments = RedisArguments()
    arguments.append(id.text)
    arguments.append(since.map { "\($0)" } ?? "")
    arguments.append(now - ActivityState.memoryMilliseconds)
    arguments.append(expiresAt)
    let (joined, left) = memberships
    arguments.append(joined.count)
    arguments.append(left.count)
    arguments.append(chunks.count)
    for chunk in chunks { arguments.append(chunk) }
    arguments.append(changes.count)
    for change in changes {
      arguments.append(change.key)
      arguments.append(change.field)
      arguments.append(change.old)
      arguments.append(change.new)
    }
    for (field, text) in writes {
      arguments.append(3)
      arguments.append(field.rawValue)
      arguments.append(text)
    }
    var names = [keys.index, keys.chunks(id), keys.activity(id)] + ActivityDraft.memberKeys(chunks, id, keys)
    if !token.isEmpty, activity != nil { names.append(keys.tokens(tokenHash, id)) }
    return (names + (joined + left).map(keys.memberships), arguments)
  }

  /// The devices that become members, and those that stop being members.
  private var memberships: (joined: [UInt32], left: [UInt32]) {
    var (joined, left): ([UInt32], [UInt32]) = ([], [])
    for (index, ordinal) in ordinals.enumerated() {
      let wasMember = !readMembers[index].live.isEmpty || !readMembers[index].rest.isEmpty
      switch (wasMember, members[index] != nil) {
      case (false, true): joined.append(ordinal)
      case (true, false): if !others.contains(index) { left.append(ordinal) }
      case (true, true), (false, false): break
      }
    }
    return (joined, left)
  }

  private struct Change {
    var key: Int
    var field: [UInt8]
    var old: [UInt8]
    var new: [UInt8]
  }

  private func change(_ field: ActivityField, from old: [UInt8], to new: [UInt8]) -> Change {
    Change(key: 3, field: Array(field.rawValue.utf8), old: old, new: new)
  }

  /// The activity was not known when it was read.
  private var isNew: Bool { read[0].isEmpty }

  /// The jobs of an activity that is not known change alone.
  private func jobChanges() -> [Change] { isNew && hasTexts ? [change(.jobs, from: read[1], to: jobs.encode())] : [] }

  /// A changed member is compared in both hashes: it moves between them when it becomes live, or stops being live.
  private func memberChanges() -> [Change] {
    let numbers = ActivityDraft.numbers(of: chunks)
    var changes: [Change] = []
    for (index, ordinal) in ordinals.enumerated() {
      let (live, rest) = readMembers[index]
      var member = members[index]
      if member == nil, others.contains(index) { continue }
      if !devices.isEmpty, let device = devices[index] { member?.device = device }
      let bytes = member?.encode() ?? []
      let isLive = member?.status == .live
      guard bytes != (live.isEmpty ? rest : live) else { continue }
      let number = numbers[OrdinalChunk.index(of: ordinal)] ?? 0
      let field = ActivityDraft.place(of: ordinal)
      changes.append(Change(key: 4 + 2 * number, field: field, old: live, new: isLive ? bytes : []))
      changes.append(Change(key: 5 + 2 * number, field: field, old: rest, new: isLive ? [] : bytes))
    }
    return changes
  }

  /// Compared also where it stays: of two devices that register a token at once, one sees the other.
  private func holderChanges() -> [Change] {
    if token.isEmpty { return [] }
    let (old, new) = (holder.map(DeviceCommit.bytes) ?? [], newHolder.map(DeviceCommit.bytes) ?? [])
    return [Change(key: 4 + 2 * chunks.count, field: ActivityDraft.bytes(tokenHash), old: old, new: new)]
  }

  private var tokenHash: UInt64 { DeviceRecord.GoneToken.fingerprint(of: token) }

  /// Little-endian.
  private static func bytes(_ number: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64($0 * 8)) }
  }

  /// All but those of `jobChanges`.
  private func textChanges() -> [(ActivityField, [UInt8])] {
    guard hasTexts else { return [] }
    let texts: [(ActivityField, [UInt8])] = [
      (.jobs, jobs.encode()), (.contentState, contentState), (.body, body), (.leaves, leaves.encode()),
      (.past, past.encode()),
    ]
    return zip(texts, read.dropFirst()).filter { $0.1 != $1 && !(isNew && $0.0 == .jobs) }.map(\.0)
  }

  // MARK: - Places

  private static func chunks(of ordinals: [UInt32]) -> [Int] {
    Set(ordinals.map { OrdinalChunk.index(of: $0) }).sorted()
  }

  private static func numbers(of chunks: [Int]) -> [Int: Int] {
    Dictionary(uniqueKeysWithValues: chunks.enumerated().map { ($1, $0) })
  }

  private static func memberKeys(_ chunks: [Int], _ id: ActivityID, _ keys: ActivityKeys) -> [String] {
    chunks.flatMap { [keys.live($0, id), keys.rest($0, id)] }
  }

  static func place(of ordinal: UInt32) -> [UInt8] {
    let place = OrdinalChunk.place(of: ordinal)
    return [UInt8(truncatingIfNeeded: place), UInt8(truncatingIfNeeded: place >> 8)]
  }
}
