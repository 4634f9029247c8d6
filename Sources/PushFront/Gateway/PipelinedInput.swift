import NIOCore
import NIOHTTP1
import PushCore

/// What a client sent before the answers to its earlier requests. Its memory counts against a budget that all connections share.
struct PipelinedInput {
  enum Input {
    case part(HTTPServerRequestPart)
    /// What came then was not HTTP, or too much: the connection ends with this answer.
    case refusal(Problem)
  }

  private let budget: ByteBudget
  private var inputs: CircularBuffer<Input> = CircularBuffer(initialCapacity: 0)
  /// What `inputs` has taken of the budget, bytes.
  private var taken = 0

  /// About what a part of a request, or a header field, takes in memory beside its own bytes.
  private static let partBytes = 128

  init(budget: ByteBudget) {
    self.budget = budget
  }

  var isEmpty: Bool { inputs.isEmpty }

  /// Adds a part of a request. If clients have sent too many, the rest is refused.
  mutating func append(_ part: HTTPServerRequestPart) {
    if case .refusal = inputs.last { return }
    let bytes = PipelinedInput.memory(part)
    guard budget.take(bytes) else {
      return append(
        Problem(
          .unavailable,
          "clients sent too many requests before the answers to others; wait for each answer, or send fewer"))
    }
    taken += bytes
    inputs.append(.part(part))
  }

  mutating func append(_ refusal: Problem) { inputs.append(.refusal(refusal)) }

  mutating func removeFirst() -> Input {
    defer { if inputs.isEmpty { removeAll() } }
    return inputs.removeFirst()
  }

  /// Frees the memory too.
  mutating func removeAll() {
    inputs.removeAll()
    budget.give(taken)
    taken = 0
  }

  /// About how many bytes a part takes in memory.
  private static func memory(_ part: HTTPServerRequestPart) -> Int {
    switch part {
    case .head(let head):
      head.headers.reduce(4 * partBytes + head.uri.utf8.count) {
        $0 + $1.name.utf8.count + $1.value.utf8.count + partBytes
      }
    case .body(let part): partBytes + part.readableBytes
    case .end: partBytes
    }
  }
}
