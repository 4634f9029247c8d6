/// The encoding of an activity and of its members in Redis: first a version or flags, then numbers, little-endian.
extension ActivityState {
  private static let form: UInt8 = 2
  /// Without the places of the newest update or end.
  private static let formWithoutPlace: UInt8 = 1
  private static let fixedCount = 23
  private static let hasStart: UInt8 = 1
  private static let hasContent: UInt8 = 2
  private static let hasLeave: UInt8 = 4
  private static let isEnd: UInt8 = 8
  private static let isBegun: UInt8 = 16
  private static let hasChannel: UInt8 = 32
  private static let isUndecided: UInt8 = 64
  private static let isAwaited: UInt8 = 128

  package func encode() -> [UInt8] {
    var flags: UInt8 = 0
    if startRevision != nil { flags |= Self.hasStart }
    if let content {
      flags |= Self.hasContent | (content.isEnd ? Self.isEnd : 0) | (content.isBegun ? Self.isBegun : 0)
    }
    if leave != nil { flags |= Self.hasLeave }
    switch updateWay {
    case .tokens: break
    case .channel: flags |= Self.hasChannel
    case .undecided: flags |= Self.isUndecided
    case .awaited: flags |= Self.isAwaited
    }
    var bytes: [UInt8] = [Self.form, storedPhase.rawValue, flags]
    bytes.append(littleEndian: UInt64(bitPattern: createdAt), count: 8)
    bytes.append(littleEndian: UInt64(lastNumber), count: 4)
    bytes.append(littleEndian: UInt64(bitPattern: sentTimestamp), count: 8)
    if let startDigest, let startRevision {
      bytes.append(littleEndian: startDigest, count: 8)
      bytes.append(startRevision)
    }
    if let content {
      bytes.append(content.revision)
      bytes.append(littleEndian: UInt64(bitPattern: content.place), count: 8)
      bytes.append(littleEndian: UInt64(bitPattern: content.shownPlace ?? -1), count: 8)
    }
    if let leave { bytes.append(leave) }
    if let channel {
      bytes.append(UInt8(channel.text.utf8.count))
      bytes.append(contentsOf: channel.text.utf8)
    }
    bytes.append(contentsOf: attributesType.utf8)
    return bytes
  }

  /// nil: not encoded by this version.
  package init?(decoding bytes: Span<UInt8>) {
    guard bytes.count >= Self.fixedCount, bytes[0] == Self.form || bytes[0] == Self.formWithoutPlace,
      let phase = Phase(rawValue: bytes[1])
    else { return nil }
    let flags = bytes[2]
    guard let createdAt = bytes.time(at: 3), let sentTimestamp = bytes.time(at: 15) else { return nil }
    self.init(createdAt: createdAt, phase: phase)
    lastNumber = UInt32(bytes.word(at: 11, count: 4))
    self.sentTimestamp = sentTimestamp
    guard lastNumber <= ActivityRevision.numberMaximum else { return nil }
    var position = Self.fixedCount
    if flags & Self.hasStart != 0 {
      guard bytes.count - position >= 8 else { return nil }
      startDigest = bytes.word(at: position)
      position += 8
      guard let revision = ActivityRevision(decoding: bytes, &position) else { return nil }
      startRevision = revision
    }
    if flags & Self.hasContent != 0 {
      guard let revision = ActivityRevision(decoding: bytes, &position) else { return nil }
      var place: Int64 = 0
      var shownPlace: Int64?
      if bytes[0] == Self.form {
        guard bytes.count - position >= 16 else { return nil }
        place = Int64(bitPattern: bytes.word(at: position))
        let shown = Int64(bitPattern: bytes.word(at: position + 8))
        shownPlace = shown < 0 ? nil : shown
        position += 16
      }
      content = Content(
        revision: revision, place: place, isEnd: flags & Self.isEnd != 0, shownPlace: shownPlace,
        isBegun: flags & Self.isBegun != 0)
    }
    if flags & Self.hasLeave != 0 {
      guard let revision = ActivityRevision(decoding: bytes, &position) else { return nil }
      leave = revision
    }
    if flags & Self.hasChannel != 0 {
      guard position < bytes.count, case let count = Int(bytes[position]), bytes.count - position > count,
        let known = ChannelID(bytes: bytes.extracting(position + 1..<position + 1 + count))
      else { return nil }
      updateWay = .channel(known)
      position += 1 + count
    } else if flags & Self.isAwaited != 0 {
      updateWay = .awaited
    } else if flags & Self.isUndecided != 0 {
      updateWay = .undecided
    }
    guard let type = try? UTF8Span(validating: bytes.extracting(position..<bytes.count)) else { return nil }
    attributesType = String(copying: type)
  }
}

extension ActivityMember {
  private static let hasStart: UInt8 = 1
  /// It has or had a token: the fields of a registration follow.
  private static let hasRegistered: UInt8 = 2
  private static let isOver: UInt8 = 4
  private static let hasLeft: UInt8 = 8
  private static let isGone: UInt8 = 16
  private static let wayShift: UInt8 = 5
  private static let wayMask: UInt8 = 3
  private static let isAlert: UInt8 = 128
  /// The device's fingerprint follows, then all else. No member has these flags.
  private static let hasDevice: UInt8 = isAlert
  /// Before these: the revisions of its ends follow, their count first.
  private static let hasLeaves: UInt8 = isAlert | hasLeft

  /// Of one that is starting and never registered: its successor follows.
  private static let hasSuccessor: UInt8 = isGone

  /// 14 bytes for a device that was only started; 26 and its token for one that was started and is live.
  package func encode() -> [UInt8] {
    var bytes: [UInt8] = []
    if hasLeft, leaves != [0] {
      bytes += [Self.hasLeaves, UInt8(leaves.count)]
      for number in leaves { bytes.append(littleEndian: UInt64(number), count: 4) }
    }
    if device != 0 {
      bytes.append(Self.hasDevice)
      bytes.append(littleEndian: UInt64(device), count: 4)
    }
    let hasRegistered = isOver || !token.isEmpty || changedAt != 0
    var flags = way.rawValue << Self.wayShift
    if let start { flags |= start.isAlert ? Self.hasStart | Self.isAlert : Self.hasStart }
    if hasRegistered { flags |= Self.hasRegistered }
    if isOver { flags |= Self.isOver }
    if hasLeft { flags |= Self.hasLeft }
    if goneAt != 0 { flags |= Self.isGone }
    let successor = hasRegistered || start?.at != 0 ? nil : successor
    if successor != nil { flags |= Self.hasSuccessor }
    bytes.append(flags)
    if let start {
      bytes.append(littleEndian: UInt64(start.job), count: 4)
      bytes.append(littleEndian: UInt64(start.at), count: 4)
    }
    if hasRegistered {
      bytes.append(littleEndian: UInt64(bitPattern: changedAt), count: 8)
      bytes.append(littleEndian: UInt64(sent), count: 4)
      if goneAt != 0 { bytes.append(littleEndian: UInt64(bitPattern: goneAt), count: 8) }
      bytes.append(contentsOf: token)
    }
    if let successor { bytes.append(littleEndian: UInt64(successor), count: 4) }
    return bytes
  }

  /// nil: invalid.
  package init?(decoding bytes: Span<UInt8>) {
    guard bytes.count > 2, bytes[0] == Self.hasLeaves, case let count = Int(bytes[1]),
      case let end = 2 + 4 * count, count > 0, bytes.count > end
    else {
      self.init(withoutLeaves: bytes)
      return
    }
    self.init(withoutLeaves: bytes.extracting(end..<bytes.count))
    guard hasLeft else { return nil }
    leaves = (0..<count).map { UInt32(bytes.word(at: 2 + 4 * $0, count: 4)) }
  }

  private init?(withoutLeaves bytes: Span<UInt8>) {
    guard bytes.count > 5, bytes[0] == Self.hasDevice else {
      self.init(withoutDevice: bytes)
      return
    }
    self.init(withoutDevice: bytes.extracting(5..<bytes.count))
    device = UInt32(bytes.word(at: 1, count: 4))
  }

  private init?(withoutDevice bytes: Span<UInt8>) {
    guard !bytes.isEmpty, let way = Way(rawValue: bytes[0] >> Self.wayShift & Self.wayMask) else { return nil }
    let isAlert = bytes[0] & Self.isAlert != 0
    guard !isAlert || bytes[0] & Self.hasStart != 0 else { return nil }
    self.init()
    self.way = way
    isOver = bytes[0] & Self.isOver != 0
    if bytes[0] & Self.hasLeft != 0 { leaves = [0] }
    var position = 1
    if bytes[0] & Self.hasStart != 0 {
      guard bytes.count - position >= 8 else { return nil }
      start = Start(
        job: UInt32(bytes.word(at: position, count: 4)), at: UInt32(bytes.word(at: position + 4, count: 4)),
        isAlert: isAlert)
      position += 8
    }
    if bytes[0] & Self.hasRegistered != 0 {
      guard bytes.count - position >= 12 else { return nil }
      guard let changedAt = bytes.time(at: position) else { return nil }
      self.changedAt = changedAt
      sent = UInt32(bytes.word(at: position + 8, count: 4))
      position += 12
      if bytes[0] & Self.isGone != 0 {
        guard bytes.count - position >= 8 else { return nil }
        guard let goneAt = bytes.time(at: position) else { return nil }
        self.goneAt = goneAt
        position += 8
      }
      for index in position..<bytes.count { token.append(bytes[index]) }
    } else if bytes[0] & Self.hasSuccessor != 0 {
      guard status == .starting, bytes.count - position == 4 else { return nil }
      successor = UInt32(bytes.word(at: position, count: 4))
    } else if position != bytes.count {
      return nil
    }
  }
}

extension ActivityRevision {
  fileprivate init?(decoding bytes: Span<UInt8>, _ position: inout Int) {
    guard bytes.count - position >= 12, let timestamp = bytes.time(at: position + 4) else { return nil }
    self.init(number: UInt32(bytes.word(at: position, count: 4)), timestamp: timestamp)
    position += 12
  }
}

extension Span<UInt8> {
  /// nil: no time that an activity can have.
  fileprivate func time(at position: Int) -> Int64? {
    let time = Int64(bitPattern: word(at: position))
    return 0...Limits.unixMillisecondsMaximum ~= time ? time : nil
  }
}

extension [UInt8] {
  fileprivate mutating func append(_ revision: ActivityRevision) {
    append(littleEndian: UInt64(revision.number), count: 4)
    append(littleEndian: UInt64(bitPattern: revision.timestamp), count: 8)
  }
}
