import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import PushCore
import PushOperations
package import PushWorker

/// The worker's HTTP server: `/livez`, `/readyz` and `/metrics` for probes and Prometheus, `/status` for operators, and, only from this
/// machine, `POST /credentials/NAME/revoke`.
package enum AdminServer {
  /// A service that serves `worker` until its group shuts down. `isUp` is called when it listens.
  package static func application(
    for worker: Worker, host: String, port: Int, logger: Logger, isUp: @escaping @Sendable () -> Void
  ) -> some ApplicationProtocol {
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    return Application(
      router: router(for: worker),
      configuration: ApplicationConfiguration(address: .hostname(host, port: port), serverName: "herald"),
      onServerRunning: { channel in
        logger.info("admin front is up", metadata: ["address": "\(address(channel.localAddress) ?? host)"])
        isUp()
      },
      logger: quiet)
  }

  /// `127.0.0.1:9090`, `[::1]:9090`.
  static func address(_ address: SocketAddress?) -> String? {
    guard let address, let ip = address.ipAddress, let port = address.port else { return nil }
    return HostPort.text(ip, port)
  }

  private static func router(for worker: Worker) -> Router<AdminContext> {
    let router = Router(context: AdminContext.self)
    router.get("livez") { _, _ in
      let stalled = await worker.stalledLanes()
      return stalled.isEmpty
        ? answer(.ok, "ok\n")
        : answer(.serviceUnavailable, "lanes that do not turn: \(stalled.joined(separator: ", "))\n")
    }
    router.get("readyz") { _, _ in
      let problems = await worker.readinessProblems()
      return problems.isEmpty
        ? answer(.ok, "ok\n") : answer(.serviceUnavailable, problems.joined(separator: "\n") + "\n")
    }
    router.get("metrics") { _, _ in
      answer(.ok, await worker.metricsText(), contentType: "text/plain; version=0.0.4; charset=utf-8")
    }
    router.get("status") { _, _ in
      guard let json = try? await worker.status().json() else { return answer(.internalServerError, "no status\n") }
      return answer(.ok, String(decoding: json, as: UTF8.self) + "\n", contentType: "application/json")
    }
    router.post("credentials/:name/revoke") { request, context in
      // The port may be open to a whole cluster's probes, and any page in a browser on this machine may post here.
      guard context.isLocal, request.headers[AdminServer.commandHeader] != nil else {
        return answer(.forbidden, "only `herald revoke` on this machine may do this\n")
      }
      guard let name = context.parameters.get("name"), worker.revoke(credential: name) else {
        return answer(.notFound, "there is no credential of this name\n")
      }
      return answer(.ok, "revoked until the next reload\n")
    }
    return router
  }

  /// A header that no web page sets by itself.
  private static let commandHeader: HTTPField.Name = {
    guard let name = HTTPField.Name(AdminClient.commandHeader) else { preconditionFailure("a header's name") }
    return name
  }()

  private static func answer(
    _ status: HTTPResponse.Status, _ text: String, contentType: String = "text/plain; charset=utf-8"
  ) -> Response {
    Response(
      status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}
