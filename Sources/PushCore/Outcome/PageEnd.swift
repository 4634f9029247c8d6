/// How a device of a page ended, as progress counts it.
package enum PageEnd: Hashable, Sendable {
  case outcome(Outcome)
  /// Gone, or without a token: nothing was sent and no outcome tells of it.
  case skipped
  /// Gone, and another device had its ordinal: nothing was sent and no outcome tells of it.
  case forgotten
  /// Its job was cancelled before anything was sent to it; no outcome tells of it.
  case cancelled

  /// Of a device that has not ended.
  package static let open = UInt8(ascii: "-")

  /// Every end, in the order in which a summary names them.
  package static let all: [PageEnd] =
    Outcome.allCases.filter { $0 != .completed }.map { .outcome($0) } + [.skipped, .forgotten, .cancelled]

  /// Letters of ends that tell that nothing was sent.
  package static let unsent = [PageEnd.skipped.letter, PageEnd.outcome(.throttled).letter]

  /// As settlements and Redis have it: these never change.
  package var letter: UInt8 {
    switch self {
    case .outcome(.accepted): UInt8(ascii: "a")
    case .outcome(.rejected): UInt8(ascii: "r")
    case .outcome(.unregistered): UInt8(ascii: "u")
    case .outcome(.expired): UInt8(ascii: "e")
    case .outcome(.throttled): UInt8(ascii: "t")
    case .outcome(.invalid): UInt8(ascii: "i")
    case .outcome(.failed): UInt8(ascii: "f")
    case .outcome(.completed): preconditionFailure("a device of a page is no audience")
    case .skipped: UInt8(ascii: "s")
    case .forgotten: UInt8(ascii: "g")
    case .cancelled: UInt8(ascii: "c")
    }
  }

  package init(_ unsent: PageResolution.Unsent) {
    self =
      switch unsent {
      case .skipped: .skipped
      case .forgotten: .forgotten
      case .cancelled: .cancelled
      }
  }

  package init?(letter: UInt8) {
    guard let found = PageEnd.all.first(where: { $0.letter == letter }) else { return nil }
    self = found
  }

  /// In summaries.
  package var name: String {
    switch self {
    case .outcome(let outcome): outcome.name
    case .skipped: "skipped"
    case .forgotten: "forgotten"
    case .cancelled: "cancelled"
    }
  }
}
