/// The devices of a page job, with the registry's answers. The arrays run parallel to the job's targets.
///
/// A page has ordinals and no tokens. The lane reads the tokens when it sends, so no queue holds data of a forgotten user.
package struct AudiencePage: ~Copyable, Sendable {
  /// Its number among the pages of its audience, from 0.
  package var number: UInt32 = 0
  /// The first ordinal's position in the whole page; above 0 in a copy for one device.
  package var position = 0
  /// The number of ordinals in the body; 0: the job is no page.
  package private(set) var count = 0
  /// The registry's epoch that the ordinals belong to; 0: written before the registry had one.
  package var epoch: UInt64 = 0
  /// Where the ordinals' digits are in the body.
  package private(set) var ordinals: [ByteRange] = []
  /// All of the body's ordinals, with what is between them.
  package private(set) var written = ByteRange.empty
  /// All of the body's fingerprints (`DeviceFingerprints`); empty: written before pages had them.
  package private(set) var writtenFingerprints = ByteRange.empty
  /// The targets' positions in the whole page.
  package private(set) var positions: [UInt16] = []
  /// The devices' ids, once they are known.
  package private(set) var devices: [ByteRange] = []
  /// When the tokens were registered, Unix milliseconds, once they are known.
  package private(set) var registeredAt: [Int64] = []

  /// The device's id in the body, without quotes, if the page is for a late token of an activity; else empty.
  package var late = ByteRange.empty
  /// Targets that get nothing any more, for example because they got a newer revision of their activity.
  package private(set) var superseded: Set<Int> = []

  /// The page number of every page for a late token; no page of an audience has it.
  package static let lateNumber = UInt32.max
  /// The page number of the broadcast of an activity's update or end, in its settlement.
  package static let broadcastNumber = UInt32.max - 1
  /// Maximum of devices in one page.
  package static let devicesMaximum = 500

  package init() {}

  package var isEmpty: Bool { count == 0 }

  /// Sets the page's ordinals, and their devices' fingerprints.
  mutating func begin(_ digits: [ByteRange], fingerprints: ByteRange) {
    writtenFingerprints = fingerprints
    count = digits.count
    ordinals = digits
    if let first = digits.first?.start, let last = digits.last?.range.upperBound {
      written = ByteRange(start: Int(first), count: last - Int(first))
    }
    positions = digits.indices.map { UInt16(position + $0) }
  }

  /// One ordinal of the page, in the order of `ordinals`.
  package func ordinal(_ target: Int, in bytes: Span<UInt8>) -> UInt32 {
    var value: UInt32 = 0
    for index in ordinals[target].range { value = value &* 10 &+ UInt32(bytes[index] &- ASCII.zero) }
    return value
  }

  /// The fingerprint of a device of the page, in the order of `ordinals`; nil: the page has none.
  package func fingerprint(_ target: Int, in bytes: Span<UInt8>) -> UInt32? {
    let range = fingerprintRange(target)
    return range.isEmpty ? nil : DeviceFingerprints.read(bytes.extracting(range.range))
  }

  /// Where it is in the body; empty: the page has none.
  func fingerprintRange(_ target: Int) -> ByteRange {
    if writtenFingerprints.isEmpty { return .empty }
    let index = Int(positions[target]) - position
    return ByteRange(
      start: Int(writtenFingerprints.start) + index * DeviceFingerprints.digitCount,
      count: DeviceFingerprints.digitCount)
  }

  /// Keeps the devices that get an outcome: `kept` are their indexes, ascending.
  mutating func keep(_ kept: [Int], devices: [ByteRange], registeredAt: [Int64], superseded: Set<Int>) {
    self.superseded = superseded
    ordinals = kept.map { ordinals[$0] }
    positions = kept.map { positions[$0] }
    self.devices = devices
    self.registeredAt = registeredAt
  }
}

extension PushJob {
  /// Replaces the ordinals by the registry's answer: from here on, targets are tokens, of the devices that have one.
  ///
  /// - Parameter isRepeated: an earlier delivery of the page may have been sent.
  /// - Returns: the devices that end without an outcome, by their positions among the body's ordinals.
  package mutating func resolve(
    _ resolution: borrowing PageResolution, isRepeated: Bool
  ) -> [(index: Int, end: PageResolution.Unsent)] {
    precondition(
      targetKind == .page && page.devices.isEmpty && resolution.entries.count == page.count,
      "a page is resolved once, whole")
    let base = bytes.count
    bytes.append(contentsOf: resolution.bytes)
    var kept: [Int] = []
    var unsent: [(index: Int, end: PageResolution.Unsent)] = []
    var devices: [ByteRange] = []
    var times: [Int64] = []
    var superseded: Set<Int> = []
    targets.removeAll(keepingCapacity: true)
    func range(_ range: ByteRange) -> ByteRange { ByteRange(start: base + Int(range.start), count: Int(range.count)) }
    for (index, entry) in resolution.entries.enumerated() {
      switch entry {
      case .token(let token, let device, let registeredAt):
        kept.append(index)
        targets.append(range(token))
        devices.append(range(device))
        times.append(registeredAt)
      case .superseded(let token, let device, let registeredAt):
        superseded.insert(kept.count)
        kept.append(index)
        // No device has an ordinal for a token, so that nothing is known about it.
        targets.append(token.isEmpty ? page.ordinals[index] : range(token))
        devices.append(range(device))
        times.append(registeredAt)
      case .skipped(let device?) where isRepeated:
        superseded.insert(kept.count)
        kept.append(index)
        targets.append(page.ordinals[index])
        devices.append(range(device))
        times.append(0)
      case .skipped: unsent.append((index, .skipped))
      case .forgotten: unsent.append((index, .forgotten))
      case .cancelled: unsent.append((index, .cancelled))
      case .settled: break
      }
    }
    page.keep(kept, devices: devices, registeredAt: times, superseded: superseded)
    return unsent
  }
}
