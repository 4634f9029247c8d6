import PushCore

/// The devices of a page, as Redis keeps them from the step that fixed the page until they all have their ends.
package struct PageOrdinals: Hashable, Sendable {
  /// In decimal, ascending, with commas between them.
  package let text: [UInt8]
  /// They are sent the fallback alert of an activity's start.
  package let isFallback: Bool
  package let count: Int

  private static let fallbackMark = UInt8(ascii: "f")

  /// - Parameter ordinals: ascending.
  package init(_ ordinals: some Collection<UInt32>, isFallback: Bool = false) {
    text = Array(ordinals.map(String.init).joined(separator: ",").utf8)
    self.isFallback = isFallback
    count = ordinals.count
  }

  /// What Redis holds: the text, behind an `f` where it is a fallback's.
  init(stored bytes: [UInt8]) {
    isFallback = bytes.first == PageOrdinals.fallbackMark
    text = isFallback ? Array(bytes.dropFirst()) : bytes
    count = text.isEmpty ? 0 : 1 + text.count { $0 == UInt8(ascii: ",") }
  }

  var stored: String { (isFallback ? "f" : "") + String(decoding: text, as: UTF8.self) }
}
