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
  mutating func keep(_ kept: [Int], devices: [ByteRange], registeredAt: [Int64]) {
    ordinals = kept.map { ordinals[$0] }
    positions = kept.map { positions[$0] }
    self.devices = devices
    self.registeredAt = registeredAt
  }
}
