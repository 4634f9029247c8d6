/// What a lane tells of a page, or of a copy of a part of it, before it acknowledges the delivery: how its devices ended.
///
/// The message is applied by position, so that it may come twice. Devices that wait in a retry queue are open in it: their copies settle
/// them.
package struct PageSettlement: Hashable, Sendable {
  /// The parent's id.
  package var parentID: [UInt8]
  /// The parent's; nil: the build before wrote it.
  package var scope: AppScope?
  package var page: UInt32
  /// The first device's position in the page.
  package var position: Int
  /// `PageEnd` letters from `position` on, `PageEnd.open` for those that have not ended.
  package var ends: [UInt8]
  /// Which devices they are: the registry's epoch, a colon, and their ordinals with commas. Redis may have another page of this number by
  /// then, for which this tells nothing. Empty: that is not checked.
  package var ordinals: [UInt8]
  /// Their fingerprints (`DeviceFingerprints`), for the same purpose. Empty: that is not checked.
  package var fingerprints: [UInt8]
  /// Of a page that starts an activity: which of the pushes reached APNs.
  package var starts: Starts?
  /// Of an activity's broadcast: APNs' last reason; empty: none.
  package var reason: [UInt8] = []

  /// How the pushes of a start, or of its fallback alerts, ended.
  package struct Starts: Hashable, Sendable {
    package var activity: [UInt8] = []
    package var areAlerts = false
    /// A letter for each of `ends`: `reached`, `unreached`, or `PageEnd.open` where nothing was sent or it has not ended.
    package var letters: [UInt8] = []

    /// APNs accepted the push, or may have.
    package static let reached = UInt8(ascii: "y")
    /// APNs surely did not accept it.
    package static let unreached = UInt8(ascii: "n")

    package init() {}
  }

  private static let head = "{\"settles\":"

  package init(
    parentID: [UInt8], scope: AppScope?, page: UInt32, position: Int, ends: [UInt8], ordinals: [UInt8] = [],
    fingerprints: [UInt8] = []
  ) {
    self.parentID = parentID
    self.scope = scope
    self.page = page
    self.position = position
    self.ends = ends
    self.ordinals = ordinals
    self.fingerprints = fingerprints
  }

  /// The parent; nil: `scope` is.
  package var job: AudienceID? { scope.map { AudienceID(String(decoding: parentID, as: UTF8.self), in: $0) } }

  /// Appends the settlement of a page's delivery.
  /// - Parameters:
  ///   - ends: a letter for each ordinal of its body.
  ///   - starts: `Starts.letters`; empty: the page starts no activity.
  ///   - reason: of an activity's broadcast, which has one end: APNs' last reason.
  package static func append(
    _ job: borrowing PushJob, ends: [UInt8], starts: [UInt8] = [], reason: APNsReason? = nil, to output: inout [UInt8]
  ) {
    output.append(text: head)
    append(string: job.parentID, of: job, to: &output)
    output.append(text: ",\"app\":")
    append(string: job.app, of: job, to: &output)
    output.append(text: ",\"environment\":\"\(job.environment.name)\",\"page\":")
    output.append(decimal: Int64(job.page.isEmpty ? AudiencePage.broadcastNumber : job.page.number))
    output.append(text: ",\"position\":")
    output.append(decimal: Int64(job.page.position))
    output.append(text: ",\"ends\":\"")
    output.append(contentsOf: ends)
    output.append(text: "\",\"ordinals\":\"")
    appendOrdinals(of: job, to: &output)
    output.append(ASCII.quote)
    if !job.page.writtenFingerprints.isEmpty {
      output.append(text: ",\"fingerprints\":\"")
      output.append(job.page.writtenFingerprints, of: job.bytes)
      output.append(ASCII.quote)
    }
    if let reason {
      output.append(text: ",\"reason\":")
      let name = reason.name
      output.append(addingCapacity: JSONText.countMaximum(name.utf8.count)) { $0.append(jsonString: name.utf8.span) }
    }
    if !starts.isEmpty {
      output.append(text: ",\"activity\":")
      append(string: job.activity, of: job, to: &output)
      output.append(text: ",\"alerts\":\(job.pushType == .alert ? 1 : 0),\"starts\":\"")
      output.append(contentsOf: starts)
      output.append(ASCII.quote)
    }
    output.append(ASCII.closeBrace)
  }

  private static func append(string text: ByteRange, of job: borrowing PushJob, to output: inout [UInt8]) {
    output.append(addingCapacity: JSONText.countMaximum(Int(text.count))) {
      $0.append(jsonString: job.bytes.span.extracting(text.range))
    }
  }

  /// Appends the `ordinals` of a page's settlement.
  package static func appendOrdinals(of job: borrowing PushJob, to output: inout [UInt8]) {
    output.append(decimal: Int64(clamping: job.page.epoch))
    output.append(UInt8(ascii: ":"))
    for byte in job.bytes[job.page.written.range] where byte &- ASCII.zero < 10 || byte == ASCII.comma {
      output.append(byte)
    }
  }

  /// Whether a message of the expansion queue is a settlement: a job has no such key.
  package static func isSettlement(_ body: Span<UInt8>) -> Bool {
    body.count >= head.utf8.count && body.extracting(0..<head.utf8.count).equals(head)
  }

  /// nil: it is none that a lane writes.
  package init?(_ body: Span<UInt8>) {
    guard let read = try? PageSettlement.read(body) else { return nil }
    self = read
    let isSound =
      !parentID.isEmpty && parentID.count <= Limits.idBytesMaximum && !ends.isEmpty && position >= 0
      && position + ends.count <= AudiencePage.devicesMaximum
      && ends.allSatisfy { $0 == PageEnd.open || PageEnd(letter: $0) != nil }
    if !isSound { return nil }
    if let starts, starts.letters.count != ends.count { return nil }
  }

  /// The ordinals of the devices that it tells of; nil: it names none, or not as many.
  package var devices: [UInt32]? {
    let text = String(decoding: ordinals, as: UTF8.self)
    guard let list = text.split(separator: ":", maxSplits: 1).last else { return nil }
    let numbers = list.split(separator: ",").compactMap { UInt32($0) }
    return numbers.count == ends.count ? numbers : nil
  }

  private static func read(_ body: Span<UInt8>) throws(JSONError) -> PageSettlement? {
    var found = PageSettlement(parentID: [], scope: nil, page: 0, position: 0, ends: [])
    var starts = Starts()
    var app = ""
    var environment: APNsEnvironment?
    var scanner = JSONScanner()
    guard try scanner.beginObject(body) else { return nil }
    repeat {
      let key = try scanner.key(body)
      let first = scanner.peek(body)
      // Others are of a newer version.
      guard let name = Key(rawValue: key.text(of: body)) else {
        try scanner.skipValue(body)
        continue
      }
      switch name {
      case .settles, .ends, .ordinals, .fingerprints, .app, .environment, .activity, .starts, .reason:
        guard first == ASCII.quote else { return nil }
        let text = JSONEscape.unescaped(try scanner.string(body).range, of: body)
        switch name {
        case .settles: found.parentID = text
        case .ends: found.ends = text
        case .ordinals: found.ordinals = text
        case .fingerprints: found.fingerprints = text
        case .app: app = String(decoding: text, as: UTF8.self)
        case .environment: environment = APNsEnvironment(name: String(decoding: text, as: UTF8.self))
        case .activity: starts.activity = text
        case .starts: starts.letters = text
        case .reason: found.reason = text
        case .page, .position, .alerts: break
        }
      case .page, .position, .alerts:
        guard first &- ASCII.zero < 10, let number = try scanner.number(body).integer else { return nil }
        if name == .page, let page = UInt32(exactly: number) {
          found.page = page
        } else if name == .position, number < AudiencePage.devicesMaximum {
          found.position = Int(number)
        } else if name == .alerts {
          starts.areAlerts = number != 0
        } else {
          return nil
        }
      }
    } while try scanner.nextMember(body)
    try scanner.end(body)
    found.scope = environment.flatMap { AppScope(app: app, environment: $0) }
    if !starts.letters.isEmpty { found.starts = starts }
    return found
  }

  private enum Key: String {
    case settles, page, position, ends, ordinals, fingerprints, app, environment, activity, alerts, starts, reason
  }
}
