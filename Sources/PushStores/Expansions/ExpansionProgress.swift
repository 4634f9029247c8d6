package import PushCore

/// The state of one audience in Redis: for people, and for its outcome.
package struct ExpansionProgress: Sendable {
  package let phase: ExpansionState.Phase
  package let isCancelled: Bool
  /// Every device is known and has its outcome.
  package let isComplete: Bool
  /// Redis lost the outcomes of devices in earlier pages.
  package let isPartlyForgotten: Bool
  package let summary: AudienceSummary
  package let pages: UInt32
  package let settledPages: UInt32
  /// Devices before it are in pages; nil: all are.
  package let ordinal: UInt32?
  /// Ordinals that the scope has allocated, if known.
  package let ordinals: UInt32?
  /// Unix milliseconds.
  package let begun: Int64
  package let ended: Int64?
  package let app: String
  package let environment: String
  package let jobClass: JobClass
  package let isDryRun: Bool
  /// Why the job ended before its first step; nil: it has a step.
  package let withdrawn: String?
  /// Why no more devices could be found; nil: all were.
  package let earlyEnd: String?
  /// Of an activity's update or end with a broadcast: its `PageEnd` letter and APNs' reason, both empty while it is open; nil: it has none.
  package let broadcast: (letter: String, reason: String)?
  /// What stays of a cancelled job of an activity, since it may have been sent.
  package enum Kept: String, Sendable {
    /// Its state is the newest.
    case state
    /// It was the newest before another one, and is again if that is cancelled.
    case former
    /// The activity has ended.
    case end
    /// Its devices have left the activity.
    case leave

    /// For people.
    var detail: String {
      switch self {
      case .state: "the activity goes on from this state, which may have been sent"
      case .former: "a newer state follows this one, which may have been sent"
      case .end: "the activity has ended: this end may have been sent"
      case .leave: "the activity has ended for these devices: this end may have been sent to some"
      }
    }
  }

  /// nil: nothing, or that is not decided.
  package let kept: Kept?
  /// The other properties of the job's message.
  package let metadata: MessageMetadata

  /// Why it has no devices, or will never have all of them or all their ends; for people. nil: nothing is known to be wrong.
  package var detail: String? { withdrawn.flatMap(ActivityJobEnd.init)?.detail ?? lack }

  /// What its summary lacks, for people; nil: nothing.
  var lack: String? {
    let early = isPartlyForgotten ? "Redis lost a part of its progress: not all ends are counted" : nil
    let lacks = [early ?? earlyEnd.map { "ended early: \($0)" }, failedBroadcast, kept?.detail].compactMap(\.self)
    return lacks.isEmpty ? nil : lacks.joined(separator: "; ")
  }

  /// APNs accepted a push of it, or may have.
  var mayHaveReached: Bool {
    let ends = Outcome.mayHaveReached.map { PageEnd.outcome($0) }
    let isOnChannel = broadcast?.letter.utf8.first.flatMap { PageEnd(letter: $0) }.map { ends.contains($0) } ?? false
    return isPartlyForgotten || isOnChannel || ends.contains { summary[$0] > 0 }
  }

  /// Pushes of it ended because a newer one came, or still will.
  var hasGivenWay: Bool { isPartlyForgotten || !isComplete || summary[.outcome(.throttled)] > 0 }

  /// Its broadcast did not reach APNs, or was overtaken; nil: it did, or is open.
  private var failedBroadcast: String? {
    guard let broadcast, let letter = broadcast.letter.utf8.first, let end = PageEnd(letter: letter),
      end != .outcome(.accepted)
    else { return nil }
    if isCancelled, end == .cancelled || end == .skipped {
      return "the broadcast on the activity's channel was cancelled"
    }
    guard end != .skipped else { return nil }
    let reason = broadcast.reason.isEmpty ? "" : ": \(broadcast.reason)"
    return "the broadcast on the activity's channel ended \(end.name)\(reason)"
  }

  /// nil: not the state of an audience.
  init?(_ fields: [String: String]) {
    guard let phase = fields["phase"].flatMap(ExpansionState.Phase.init), let app = fields["app"],
      let environment = fields["environment"], let pages = fields["pages"].flatMap(UInt32.init),
      let settled = fields["settled"].flatMap(UInt32.init), let devices = ExpansionProgress.count(fields["devices"]),
      let begun = ExpansionProgress.time(fields["begun"])
    else { return nil }
    self.phase = phase
    self.app = app
    self.environment = environment
    self.pages = pages
    self.begun = begun
    settledPages = settled
    ordinal = fields["ordinal"].flatMap(UInt32.init)
    ordinals = fields["of"].flatMap(UInt32.init)
    ended = ExpansionProgress.time(fields["ended"])
    isCancelled = fields["cancelled"] == "1"
    isPartlyForgotten = fields["forgotten"] == "1"
    isComplete = ordinal == nil && pages == settled
    isDryRun = fields["dry"] == "1"
    withdrawn = fields["withdrawn"]
    earlyEnd = fields["early"]
    broadcast = fields["channel"].map { ($0, fields["channel_reason"] ?? "") }
    kept = fields["kept"].flatMap(Kept.init)
    jobClass = fields["class"] == "bulk" ? .bulk : .transactional
    var summary = AudienceSummary()
    summary.devices = devices
    for end in PageEnd.all {
      summary[end] = ExpansionProgress.count(fields["n:\(Character(UnicodeScalar(end.letter)))"]) ?? 0
    }
    self.summary = summary
    metadata = MessageMetadata(facts: fields)
  }

  /// nil: no count that Herald writes: sums of them cannot overflow.
  private static func count(_ text: String?) -> UInt64? {
    text.flatMap(UInt64.init).flatMap { $0 <= UInt64(UInt32.max) ? $0 : nil }
  }

  /// Unix milliseconds; nil: no time.
  fileprivate static func time(_ text: String?) -> Int64? {
    text.flatMap(Int64.init).flatMap { 0...Limits.unixMillisecondsMaximum ~= $0 ? $0 : nil }
  }
}

extension Outcome {
  /// With the others APNs has refused each push of it, or got none.
  fileprivate static let mayHaveReached = [Outcome.accepted, .throttled, .expired, .failed]
}

extension MessageMetadata {
  /// The properties of a job's message that Redis stores for the outcome of its audience: names and values, texts as
  /// hex.
  var facts: [String] {
    let bytes = self.bytes
    func hex(_ range: ByteRange) -> String {
      String(decoding: bytes[range.range].flatMap { [Hex.digit($0 >> 4), Hex.digit($0 & 15)] }, as: UTF8.self)
    }
    return [
      "message_id", hex(messageID), "correlation_id", hex(correlationID), "traceparent", hex(traceparent), "tracestate",
      hex(tracestate), "enqueued", enqueuedAt.map(String.init) ?? "", "first_seen", firstSeen.map(String.init) ?? "",
      "class", jobClass == .bulk ? "bulk" : "transactional",
    ]
  }

  fileprivate init(facts: [String: String]) {
    self.init()
    messageID = append(hex: facts["message_id"])
    correlationID = append(hex: facts["correlation_id"])
    traceparent = append(hex: facts["traceparent"])
    tracestate = append(hex: facts["tracestate"])
    enqueuedAt = ExpansionProgress.time(facts["enqueued"])
    firstSeen = ExpansionProgress.time(facts["first_seen"])
    jobClass = facts["class"] == "bulk" ? .bulk : .transactional
  }

  private mutating func append(hex text: String?) -> ByteRange {
    let digits = Array((text ?? "").utf8)
    let start = bytes.count
    for index in stride(from: 0, to: digits.count - 1, by: 2) {
      guard let high = Hex.value(digits[index]), let low = Hex.value(digits[index + 1]) else { break }
      bytes.append(high << 4 | low)
    }
    return ByteRange(start: start, count: bytes.count - start)
  }
}
