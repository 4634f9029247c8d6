package import PushCore

/// The devices of a page. Redis stores them from the step that fixed the page until all have their outcomes.
package struct PageOrdinals: Hashable, Sendable {
  /// What they are sent.
  package enum Kind: Hashable, Sendable {
    /// The job.
    case usual
    /// The fallback alert of an activity's start.
    case fallback
    /// An activity's start that names this channel for updates.
    case channel(ChannelID)
  }

  /// In decimal, ascending, with commas between them.
  package let text: [UInt8]
  /// The registry's epoch when they were read; 0: it had none.
  package let epoch: UInt64
  /// Of the devices (`DeviceFingerprints`); empty: fixed before pages had them.
  package let fingerprints: [UInt8]
  package let kind: Kind
  package let count: Int

  private static let fallbackMark = UInt8(ascii: "f")
  private static let channelMark = UInt8(ascii: "c")
  /// Behind the channel, and behind the epoch; no base64.
  private static let end = UInt8(ascii: ":")

  /// - Parameters:
  ///   - ordinals: ascending.
  ///   - fingerprints: in the same order; empty: there are none.
  package init(
    _ ordinals: some Collection<UInt32>, epoch: UInt64, fingerprints: some Collection<UInt32> = [],
    _ kind: Kind = .usual
  ) {
    self.fingerprints = DeviceFingerprints.text(of: fingerprints)
    text = Array(ordinals.map(String.init).joined(separator: ",").utf8)
    self.epoch = epoch
    self.kind = kind
    count = ordinals.count
  }

  /// What Redis holds: an `f` where it is a fallback's, or a `c`, the channel and a colon; then the epoch and a colon,
  /// and the text.
  init(stored bytes: [UInt8], fingerprints: [UInt8]) {
    self.fingerprints = fingerprints
    var rest = bytes[...]
    switch bytes.first {
    case PageOrdinals.fallbackMark:
      kind = .fallback
      rest = rest.dropFirst()
    case PageOrdinals.channelMark:
      let id = rest.dropFirst().prefix { $0 != PageOrdinals.end }
      kind = ChannelID(text: String(decoding: id, as: UTF8.self)).map { .channel($0) } ?? .usual
      rest = rest.dropFirst(id.count + 2)
    default: kind = .usual
    }
    let digits = rest.firstIndex(of: PageOrdinals.end).map { rest[..<$0] }
    epoch = digits.flatMap { UInt64(String(decoding: $0, as: UTF8.self)) } ?? 0
    text = Array(rest.dropFirst(digits.map { $0.count + 1 } ?? 0))
    count = text.isEmpty ? 0 : 1 + text.count { $0 == UInt8(ascii: ",") }
  }

  /// Whether a copy of the page, with this number of devices, is for devices of this page.
  func has(_ page: PageSettlement, _ count: Int) -> Bool {
    guard part(from: page.position, count) == page.ordinals else { return false }
    if fingerprints.isEmpty || page.fingerprints.isEmpty { return true }
    let first = page.position * DeviceFingerprints.digitCount
    return fingerprints.dropFirst(first).prefix(count * DeviceFingerprints.digitCount).elementsEqual(page.fingerprints)
  }

  /// The part of a copy of the page, as in `PageSettlement.ordinals`.
  private func part(from position: Int, _ count: Int) -> [UInt8] {
    let comma = UInt8(ascii: ",")
    return Array("\(epoch):".utf8)
      + text.split(separator: comma).dropFirst(position).prefix(count).joined(separator: [comma])
  }

  var stored: String {
    let ordinals = "\(epoch):" + String(decoding: text, as: UTF8.self)
    return switch kind {
    case .usual: ordinals
    case .fallback: "f" + ordinals
    case .channel(let id): "c\(id):" + ordinals
    }
  }
}
