import HTTPTypes
package import Hummingbird
package import Logging
package import PushWorker

/// The worker's HTTP front for probes and Prometheus: `/livez`, `/readyz`, `/metrics`; and `/status` for people.
package enum AdminServer {
  /// A service that serves `worker` until its group shuts down.
  package static func application(
    for worker: Worker, host: String, port: Int, logger: Logger
  ) -> some ApplicationProtocol {
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    return Application(
      router: router(for: worker),
      configuration: ApplicationConfiguration(address: .hostname(host, port: port), serverName: "herald"),
      onServerRunning: { channel in
        logger.info("admin front is up", metadata: ["address": "\(channel.localAddress.map { "\($0)" } ?? host)"])
      },
      logger: quiet)
  }

  private static func router(for worker: Worker) -> Router<BasicRequestContext> {
    let router = Router()
    router.get("livez") { _, _ in
      let stalled = await worker.stalledLanes()
      return stalled.isEmpty
        ? answer(.ok, "ok\n") : answer(.serviceUnavailable, "lanes that do not turn: \(stalled)\n")
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
    return router
  }

  private static func answer(
    _ status: HTTPResponse.Status, _ text: String, contentType: String = "text/plain; charset=utf-8"
  ) -> Response {
    Response(
      status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
  }
}
