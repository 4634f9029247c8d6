import NIOCore
import NIOHTTP1
import PushCore

/// What a client sent before the answers to its earlier requests. Its memory counts against a budget that requests share.
struct PipelinedInput {
  enum Input {
    case part(HTTPServerRequestPart)
    /// What came then was not HTTP, or too much: the connection ends with this answer.
    case refusal(Problem)
  }

  private let budget: SharedBudget
  private var inputs: CircularBuffer<Input> = CircularBuffer(initialCapacity: 0)
  /// What `inputs` has taken of the budget, bytes.
  private var taken = 0
  /// The id of the key that it was taken for; nil: none was known.
  private var owner: String?

  /// About what a part of a request, or a header field, takes in memory beside its own bytes.
  private static let partBytes = 128

  init(budget: SharedBudget) {
    self.budget = budget
  }

  var isEmpty: Bool { inputs.isEmpty }

  /// Adds a part of a request. If clients, or those with its key, have sent too many, the rest is refused.
  /// - Parameter key: the id of the key of the requests before it; nil: none is known.
  mutating func append(_ part: HTTPServerRequestPart, of key: String?) {
    if case .refusal = inputs.last { return }
    if inputs.isEmpty { owner = key }
    let bytes = PipelinedInput.memory(part)
    guard budget.take(bytes, for: owner) else {
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
    budget.give(taken, from: owner)
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
