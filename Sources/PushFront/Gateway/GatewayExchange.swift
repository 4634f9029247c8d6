import NIOCore
import PushCore

/// One request of a connection, for the task that answers it. Its methods may be called from any thread.
final class GatewayExchange: Sendable {
  let request: GatewayRequest
  /// nil: no route has the request's path.
  let route: GatewayRoute?
  /// The valid key in the request's header `Authorization`; nil: there is none, or it may have been created a moment ago.
  let key: APIKey?
  private let loop: any EventLoop
  private let connection: NIOLoopBound<GatewayConnection>

  init(
    _ request: GatewayRequest, _ route: GatewayRoute?, key: APIKey?, _ connection: GatewayConnection,
    on loop: any EventLoop
  ) {
    self.request = request
    self.route = route
    self.key = key
    self.loop = loop
    self.connection = NIOLoopBound(connection, eventLoop: loop)
  }

  /// The request's body, once it is complete. Throws a `Problem`, or `ConnectionEnded`.
  /// - Parameter key: the request's valid key, which the body's bytes count for.
  func body(of key: APIKey) async throws -> GatewayBody {
    try GatewayBodyParts.check(request)
    if loop.inEventLoop, let body = try connection.value.bodyNow(of: key) { return body }
    return try await withCheckedThrowingContinuation { continuation in
      onLoop { $0.whenBodyEnds(of: key, continuation) }
    }
  }

  /// The request has this valid key, which was not known when its head came.
  func adopt(_ key: APIKey) { onLoop { $0.adopt(key) } }

  /// The beginning of a request's body whose key is in the body.
  enum Beginning: Sendable {
    /// It has a valid key.
    case keyed(APIKey)
    /// It has none that is known: the whole body, or as much as is read without a key.
    case unkeyed([UInt8], isWhole: Bool)
  }

  /// Returns as soon as the key is found, or cannot come any more. Throws a `Problem`, or `ConnectionEnded`.
  func beginning() async throws -> Beginning {
    try GatewayBodyParts.check(request)
    return try await withCheckedThrowingContinuation { continuation in
      onLoop { $0.whenBodyBegins(continuation) }
    }
  }

  /// Sends the answer.
  func send(_ answer: GatewayAnswer) async {
    switch answer.body {
    case .bytes, .none: onLoop { $0.send(answer) }
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
