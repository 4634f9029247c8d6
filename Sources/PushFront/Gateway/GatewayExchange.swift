import NIOCore
import PushCore

/// One request of a connection, for the task that answers it. Its methods may be called from any thread.
final class GatewayExchange: Sendable {
  let request: GatewayRequest
  private let loop: any EventLoop
  private let connection: NIOLoopBound<GatewayConnection>

  init(_ request: GatewayRequest, _ connection: GatewayConnection, on loop: any EventLoop) {
    self.request = request
    self.loop = loop
    self.connection = NIOLoopBound(connection, eventLoop: loop)
  }

  /// The request's body, once it is complete. Throws a `Problem`, or `ConnectionEnded`.
  func body() async throws -> GatewayBody {
    try GatewayBodyParts.check(request)
    if loop.inEventLoop, let body = try connection.value.bodyNow() { return body }
    return try await withCheckedThrowingContinuation { continuation in
      onLoop { $0.whenBodyEnds(continuation) }
    }
  }

  /// Sends the answer.
  func send(_ answer: GatewayAnswer) async {
    switch answer.body {
    case .bytes: onLoop { $0.send(answer) }
    case .stream(let write):
      onLoop { $0.beginStream(answer) }
      do {
        try await write(self)
        onLoop { $0.endStream() }
      } catch {
        onLoop { $0.abortStream() }
      }
    }
  }

  /// Sends a part of a stream. Returns when the kernel has taken it.
  func write(_ part: ByteBuffer) async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      onLoop { $0.write(part) { continuation.resume(with: $0) } }
    }
  }

  /// Returns after other connections have had their turn: the event loop reads from sockets only when no task is left.
  func letOthersRun() async {
    await withCheckedContinuation { continuation in
      _ = loop.scheduleTask(in: .milliseconds(1)) { continuation.resume() }
    }
  }

  private func onLoop(_ work: @escaping @Sendable (GatewayConnection) -> Void) {
    if loop.inEventLoop {
      work(connection.value)
    } else {
      loop.execute { [connection] in work(connection.value) }
    }
  }
}

/// The connection ended before the request was complete: there is nobody to answer.
struct ConnectionEnded: Error {}
