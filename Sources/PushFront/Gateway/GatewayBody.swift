import Hummingbird
import NIOCore
import PushCore

/// A request's body in memory. Its bytes count against the shared budget until it is released.
struct GatewayBody: ~Copyable {
  let bytes: [UInt8]
  private let budget: ByteBudget

  /// Reads the body. Throws a `Problem` or the connection's error.
  init(_ request: Request, budget: ByteBudget) async throws {
    let maximum = GatewayLimits.bodyBytesMaximum
    if let encoding = request.headers[.contentEncoding], encoding.lowercased() != "identity" {
      throw Problem(.unsupportedMedia, "a body must not be compressed")
    }
    let announced = request.headers[.contentLength].flatMap { Int($0) }
    if let announced, announced > maximum { throw GatewayBody.tooLarge }
    var bytes: [UInt8] = []
    var taken = 0
    do {
      for try await part in request.body {
        guard bytes.count + part.readableBytes <= maximum else { throw GatewayBody.tooLarge }
        guard budget.take(part.readableBytes) else {
          throw Problem(.unavailable, "the server receives too many bodies at once; try again")
        }
        taken += part.readableBytes
        bytes.append(contentsOf: part.readableBytesView)
      }
    } catch {
      budget.give(taken)
      throw error
    }
    self.bytes = bytes
    self.budget = budget
  }

  deinit { budget.give(bytes.count) }

  private static let tooLarge = Problem(.tooLarge, "a body has at most \(GatewayLimits.bodyBytesMaximum) bytes")
}
