import NIOCore
import PushCore

/// A request's body in memory. Its bytes count against the shared budget until it is released.
final class GatewayBody: Sendable {
  let bytes: [UInt8]
  private let budget: ByteBudget

  fileprivate init(_ bytes: [UInt8], takenFrom budget: ByteBudget) {
    self.bytes = bytes
    self.budget = budget
  }

  deinit { budget.give(bytes.count) }
}

/// Collects a request's body.
struct GatewayBodyParts {
  private let budget: ByteBudget
  private var bytes: [UInt8] = []
  /// Why the body is refused. Then nothing of it is kept.
  private(set) var refusal: Problem?

  init(budget: ByteBudget) {
    self.budget = budget
  }

  mutating func append(_ part: ByteBuffer) {
    guard refusal == nil else { return }
    guard bytes.count + part.readableBytes <= GatewayLimits.bodyBytesMaximum else {
      return refuse(GatewayBodyParts.tooLarge)
    }
    guard budget.take(part.readableBytes) else {
      return refuse(Problem(.unavailable, "the server receives too many bodies at once; try again"))
    }
    bytes.append(contentsOf: part.readableBytesView)
  }

  private mutating func refuse(_ problem: Problem) {
    drop()
    refusal = problem
  }

  /// Returns the bytes to the budget.
  mutating func drop() {
    budget.give(bytes.count)
    bytes = []
  }

  /// What was collected. Call once.
  mutating func take() -> GatewayBody {
    let body = GatewayBody(bytes, takenFrom: budget)
    bytes = []
    return body
  }

  /// Throws if the head already says that the body cannot be taken.
  static func check(_ request: GatewayRequest) throws(Problem) {
    if let encoding = request["content-encoding"], encoding.lowercased() != "identity" {
      throw Problem(.unsupportedMedia, "a body must not be compressed")
    }
    if let count = request["content-length"].flatMap({ Int($0) }), count > GatewayLimits.bodyBytesMaximum {
      throw tooLarge
    }
  }

  private static let tooLarge = Problem(.tooLarge, "a body has at most \(GatewayLimits.bodyBytesMaximum) bytes")
}
