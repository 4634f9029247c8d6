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
  package let kind: Kind
  package let count: Int

  private static let fallbackMark = UInt8(ascii: "f")
  private static let channelMark = UInt8(ascii: "c")
  /// Behind the channel; no base64.
  private static let channelEnd = UInt8(ascii: ":")

  /// - Parameter ordinals: ascending.
  package init(_ ordinals: some Collection<UInt32>, _ kind: Kind = .usual) {
    text = Array(ordinals.map(String.init).joined(separator: ",").utf8)
    self.kind = kind
    count = ordinals.count
  }

  /// What Redis holds: the text, behind an `f` where it is a fallback's, or a `c`, the channel and a colon.
  init(stored bytes: [UInt8]) {
    var rest = bytes[...]
    switch bytes.first {
    case PageOrdinals.fallbackMark:
      kind = .fallback
      rest = rest.dropFirst()
    case PageOrdinals.channelMark:
      let id = rest.dropFirst().prefix { $0 != PageOrdinals.channelEnd }
      kind = ChannelID(text: String(decoding: id, as: UTF8.self)).map { .channel($0) } ?? .usual
      rest = rest.dropFirst(id.count + 2)
    default: kind = .usual
    }
    text = Array(rest)
    count = text.isEmpty ? 0 : 1 + text.count { $0 == UInt8(ascii: ",") }
  }

  var stored: String {
    let ordinals = String(decoding: text, as: UTF8.self)
    return switch kind {
    case .usual: ordinals
    case .fallback: "f" + ordinals
    case .channel(let id): "c\(id):" + ordinals
    }
  }
}
