import NIOCore
import PushCore
import PushIO
import ServiceLifecycle

/// An HTTP server as a service. Where it cannot listen, its error says what to change.
struct ListeningService<Server: Service>: Service {
  let server: Server
  /// For errors.
  let name: String
  /// The configuration's section with `host` and `port`.
  let section: String
  let host: String
  let port: UInt16

  func run() async throws {
    do {
      try await server.run()
    } catch let error as IOError {
      throw failure(systemErrorText(error.errnoCode))
    } catch is SocketAddressError.UnknownHost {
      throw failure("there is no such host")
    }
  }

  private func failure(_ reason: String) -> ListenError {
    ListenError(
      description: """
        \(name) cannot listen at \(HostPort.text(host, port)): \(reason); choose another address with \(section).host and \
        \(section).port
        """)
  }
}

/// A server cannot listen at its address.
struct ListenError: Error, CustomStringConvertible {
  let description: String
}
