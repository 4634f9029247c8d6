/// The registry's answer for a page's devices, in the order of its ordinals.
package struct PageResolution: Sendable {
  package enum Entry: Hashable, Sendable {
    /// Send to it. Both ranges are in `bytes`: the token as lower-case hex, the device's id as UTF-8. `registeredAt`: when the token was
    /// registered, Unix milliseconds.
    case token(ByteRange, device: ByteRange, registeredAt: Int64)
    /// Of an activity: nothing is sent to it any more, because it got a newer state, or has the activity. An earlier delivery of the page
    /// may have sent to this token (empty: it is not known any more), and then that one's outcome is the device's.
    /// `registeredAt`: as above; 0: it has no dead-token mark.
    case superseded(ByteRange, device: ByteRange, registeredAt: Int64)
    /// The device is gone, or has no token: it ends without an outcome. With a `device`, an earlier delivery of the page may have sent to a
    /// token that is not known any more.
    case skipped(device: ByteRange?)
    /// The device is gone, and another one has its ordinal: it ends without an outcome.
    case forgotten
    /// Its job was cancelled before anything was sent to it: it ends without an outcome.
    case cancelled
    /// An earlier delivery of the page told how it ended.
    case settled

    /// How a device ends that has no outcome; nil: it has one, or an earlier delivery told it.
    package var unsent: Unsent? {
      switch self {
      case .skipped(device: nil): .skipped
      case .forgotten: .forgotten
      case .cancelled: .cancelled
      case .token, .superseded, .skipped, .settled: nil
      }
    }
  }

  /// How a device ends that nothing is sent to, without an outcome.
  package enum Unsent: Hashable, Sendable {
    /// Gone, or without a token.
    case skipped
    /// Gone, and another device has its ordinal.
    case forgotten
    /// Its job was cancelled first.
    case cancelled
  }

  package private(set) var entries: [Entry] = []
  package private(set) var bytes: [UInt8] = []
  /// Of an activity's broadcast, which has no entries: a newer one is in progress.
  package var isOvertaken = false

  /// Redis was emptied, and has another page of this number by now: how these devices end must not count there.
  package var isForeign = false

  /// Another page of its job tells how one of its devices ends, and has not told yet: this page is looked up again later.
  package private(set) var waitsForAnother = false

  /// Of the page's job. A page that is paused has no entries: it is looked up again later.
  package var standing = AudienceStanding.running

  package init() {}

  package mutating func removeAll() {
    entries.removeAll(keepingCapacity: true)
    bytes.removeAll(keepingCapacity: true)
  }

  package mutating func skip() { entries.append(.skipped(device: nil)) }

  package mutating func skip(device: Span<UInt8>) { entries.append(.skipped(device: append(device))) }

  package mutating func settled() { entries.append(.settled) }

  package mutating func waitForAnother() {
    waitsForAnother = true
    settled()
  }

  package mutating func forget() { entries.append(.forgotten) }

  package mutating func cancel() { entries.append(.cancelled) }

  /// - Parameter token: its bytes, or none.
  package mutating func supersede(_ token: Span<UInt8>, device: Span<UInt8>, registeredAt: Int64) {
    let token = append(hex: token)
    entries.append(.superseded(token, device: append(device), registeredAt: registeredAt))
  }

  /// - Parameter token: its bytes.
  package mutating func send(to token: Span<UInt8>, device: Span<UInt8>, registeredAt: Int64) {
    let token = append(hex: token)
    entries.append(.token(token, device: append(device), registeredAt: registeredAt))
  }

  private mutating func append(hex token: Span<UInt8>) -> ByteRange {
    let start = bytes.count
    for index in 0..<token.count {
      bytes.append(Hex.digit(token[index] >> 4))
      bytes.append(Hex.digit(token[index] & 15))
    }
    return ByteRange(start: start, count: bytes.count - start)
  }

  private mutating func append(_ device: Span<UInt8>) -> ByteRange {
    let start = bytes.count
    for index in 0..<device.count { bytes.append(device[index]) }
    return ByteRange(start: start, count: device.count)
  }
}
