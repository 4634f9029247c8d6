/// What a page job says of its devices, and what the registry adds. The arrays run beside the job's targets.
///
/// A page carries ordinals, and no tokens: they are read when it is sent, so that a forgotten user waits in no queue.
package struct AudiencePage: Sendable {
  /// Its number among the pages of its audience, from 0 on.
  package var number: UInt32 = 0
  /// The first ordinal's position among those of the whole page: above 0 in a copy for one device of it.
  package var position = 0
  /// Ordinals that the body names; 0: the job is no page.
  package private(set) var count = 0
  /// The digits of the ordinals as they stand in the body.
  package private(set) var ordinals: [ByteRange] = []
  /// The targets' positions in the whole page.
  package private(set) var positions: [UInt16] = []
  /// The devices' ids, once they are known.
  package private(set) var devices: [ByteRange] = []
  /// When the tokens were registered, Unix milliseconds, once they are known.
  package private(set) var registeredAt: [Int64] = []

  /// The device as the body has it, between its quotes, where the page answers a late token of an activity; else empty.
  package var late = ByteRange.empty
  /// Targets that are sent nothing: a newer revision of their activity was.
  package private(set) var superseded: Set<Int> = []

  /// The number of every page that answers a late token: no page of an audience has it.
  package static let lateNumber = UInt32.max
  /// Devices of one page.
  package static let devicesMaximum = 500

  package init() {}

  package var isEmpty: Bool { count == 0 }

  /// The page names these ordinals.
  mutating func begin(_ digits: [ByteRange]) {
    count = digits.count
    ordinals = digits
    positions = digits.indices.map { UInt16(position + $0) }
  }

  /// A value of a page's ordinals, in the order of `ordinals`.
  package func ordinal(_ target: Int, in bytes: Span<UInt8>) -> UInt32 {
    var value: UInt32 = 0
    for index in ordinals[target].range { value = value &* 10 &+ UInt32(bytes[index] &- ASCII.zero) }
    return value
  }

  /// Keeps the devices that have a token: `kept` are their indexes, ascending.
  mutating func keep(_ kept: [Int], devices: [ByteRange], registeredAt: [Int64], superseded: Set<Int>) {
    self.superseded = superseded
    ordinals = kept.map { ordinals[$0] }
    positions = kept.map { positions[$0] }
    self.devices = devices
    self.registeredAt = registeredAt
  }
}

extension PushJob {
  /// Puts the registry's answer in place of the ordinals: targets are tokens from here on, of those devices alone that have one.
  ///
  /// - Returns: the others, by their place among the body's ordinals.
  package mutating func resolve(_ resolution: borrowing PageResolution) -> [Int] {
    precondition(
      targetKind == .page && page.devices.isEmpty && resolution.entries.count == page.count,
      "a page is resolved once, whole")
    let base = bytes.count
    bytes.append(contentsOf: resolution.bytes)
    var kept: [Int] = []
    var skipped: [Int] = []
    var devices: [ByteRange] = []
    var times: [Int64] = []
    var superseded: Set<Int> = []
    targets.removeAll(keepingCapacity: true)
    for (index, entry) in resolution.entries.enumerated() {
      switch entry {
      case .token(let token, let device, let registeredAt):
        kept.append(index)
        targets.append(ByteRange(start: base + Int(token.start), count: Int(token.count)))
        devices.append(ByteRange(start: base + Int(device.start), count: Int(device.count)))
        times.append(registeredAt)
      case .superseded(let device):
        superseded.insert(kept.count)
        kept.append(index)
        targets.append(page.ordinals[index])
        devices.append(ByteRange(start: base + Int(device.start), count: Int(device.count)))
        times.append(0)
      case .skipped:
        skipped.append(index)
      }
    }
    page.keep(kept, devices: devices, registeredAt: times, superseded: superseded)
    return skipped
  }
}
