import PushCore
import PushIO

/// Values read from Redis, which another program may have written: outcomes, and sealed provider tokens.
final class RememberedSubject: FuzzSubject {
  private let seal = TokenSeal(key: [UInt8](repeating: 7, count: 32))

  init() {}

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    try holds(seal.open(bytes, belongingTo: [1]) == nil, "nobody else can seal")
    guard let outcome = RememberedOutcome(decoding: bytes.span) else { return }
    var output: [UInt8] = []
    outcome.encode(into: &output)
    try holds(output.count <= RememberedOutcome.encodedCountMaximum, "an encoding is bounded: \(output.count)")
    try holds(RememberedOutcome(decoding: output.span) == outcome, "an outcome survives Redis: \(outcome)")
  }
}
