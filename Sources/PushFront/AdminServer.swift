import HTTPTypes
package import Hummingbird
package import Logging
import NIOCore
import PushCore
import PushOperations
import PushSettings
package import PushWorker

/// The worker's HTTP server: `/livez`, `/readyz` and `/metrics` for probes and Prometheus, `/status` for operators, and for those who may
/// change something `POST /credentials/NAME/revoke` and `unrevoke`, `POST /pauses/lift`.
package enum AdminServer {
  /// A connection without a request is closed after this.
  private static let idleSeconds: Int64 = 30

  /// A service that serves `worker` until its group shuts down. `isUp` is called when it listens.
  package static func application(
    for worker: Worker, host: String, port: Int, logger: Logger, isUp: @escaping @Sendable () -> Void
  ) -> some ApplicationProtocol {
    var quiet = logger
    quiet.logLevel = max(logger.logLevel, .warning)
    return Application(
      router: router(for: worker),
      server: .http1(configuration: .init(idleTimeout: .seconds(AdminServer.idleSeconds))),
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
    let router = Router(context: AdminContext.self, options: .autoGenerateHeadEndpoints)
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
    let tokenFile = worker.configuration.admin.tokenFile
    router.post("credentials/:name/revoke") { request, context in
      if let refusal = refusal(request, context, tokenFile) { return refusal }
      let names = context.parameters.get("name").map(worker.revoke) ?? []
      guard let name = names.first else { return answer(.notFound, "there is no credential of this name\n") }
      let others = names.dropFirst().map { "\($0) has the same key: revoked until `herald unrevoke \($0)` too\n" }
      return answer(
        .ok, "\(name) is revoked until its key changes or `herald unrevoke \(name)`\n" + others.joined())
    }
    router.post("credentials/:name/unrevoke") { request, context in
      if let refusal = refusal(request, context, tokenFile) { return refusal }
      guard let name = context.parameters.get("name"), let others = worker.unrevoke(credential: name) else {
        return answer(.notFound, "no credential of this name is revoked\n")
      }
      let revoked = others.map { "\($0) has the same key and stays revoked: `herald unrevoke \($0)` ends that\n" }
      return answer(.ok, "\(name) is in use again\n" + revoked.joined())
    }
    router.post("pauses/lift") { request, context in
      if let refusal = refusal(request, context, tokenFile) { return refusal }
      let (credential, topic) = (
        request.uri.queryParameters["credential"].map(String.init),
        request.uri.queryParameters["topic"].map(String.init)
      )
      let lifted = await worker.liftPauses(credential: credential, topic: topic)
      guard !lifted.isEmpty else {
        return answer(.notFound, "nothing of that is paused: herald pauses list shows what is\n")
      }
      return answer(.ok, "\(lifted.count)\n")
    }
    return router
  }

  /// Why a change is refused; nil: it is allowed. With `admin.token_file` it must show the token, wherever it comes from. Without it, it must
  /// come from a process of root or of our own user on this machine, and not from a page in that user's browser.
  private static func refusal(_ request: Request, _ context: AdminContext, _ tokenFile: String?) -> Response? {
    guard let tokenFile else {
      if request.headers[AdminServer.commandHeader] != nil, context.isOfOwnUser { return nil }
      return answer(
        .forbidden,
        "only herald, run by the worker's user or root on its machine or in its container, may do this; else set admin.token_file\n"
      )
    }
    do throws(AdminToken.Failure) {
      let token = try AdminToken(file: tokenFile)
      if token.isShown(by: request.headers[.authorization]) { return nil }
      return answer(.unauthorized, "wants the token of admin.token_file: Authorization: Bearer TOKEN\n")
    } catch {
      return answer(.internalServerError, "\(error)\n")
    }
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
