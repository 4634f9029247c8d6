/// The registry's answer for a page's devices, in the order of its ordinals.
package struct PageResolution: Sendable {
  package enum Entry: Hashable, Sendable {
    /// Send to it. Both ranges are in `bytes`: the token as lower-case hex, the device's id as UTF-8. `registeredAt`: when the token was
    /// registered, Unix milliseconds.
    case token(ByteRange, device: ByteRange, registeredAt: Int64)
    /// Of an activity: the device got a newer state. The range of its id is in `bytes`.
    case superseded(device: ByteRange)
    /// The device is gone, or has no token: it ends without an outcome.
    case skipped
  }

  package private(set) var entries: [Entry] = []
  package private(set) var bytes: [UInt8] = []
  /// Of an activity's broadcast, which has no entries: a newer one is in progress.
  package var isOvertaken = false

  package init() {}

  package mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    bytes.removeAll(keepingCapacity: true)
  }

  package mutating func skip() { entries.append(.skipped) }

  package mutating func supersede(device: Span<UInt8>) {
    let start = bytes.count
    for index in 0..<device.count { bytes.append(device[index]) }
    entries.append(.superseded(device: ByteRange(start: start, count: device.count)))
  }

  /// - Parameter token: its bytes.
  package mutating func send(to token: Span<UInt8>, device: Span<UInt8>, registeredAt: Int64) {
    let start = bytes.count
    for index in 0..<token.count {
      bytes.append(Hex.digit(token[index] >> 4))
      bytes.append(Hex.digit(token[index] & 15))
    }
    let middle = bytes.count
    for index in 0..<device.count { bytes.append(device[index]) }
    entries.append(
      .token(
        ByteRange(start: start, count: middle - start), device: ByteRange(start: middle, count: bytes.count - middle),
        registeredAt: registeredAt))
  }
}
