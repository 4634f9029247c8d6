import Logging
import PushSettings
import PushWorker
import ServiceLifecycle
import UnixSignals

/// Reads the certificate again on SIGHUP and when its files change. On SIGHUP, also reads the log settings and the credentials' apps. API keys are read every two
/// seconds anyway.
struct GatewayReload: Service {
  private static let pollSeconds = 2

  let tls: GatewayTLS?
  let services: GatewayServices
  let load: @Sendable () throws -> Configuration

  private var logger: Logger { services.logger }

  func run() async throws {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await watchSignals() }
      group.addTask { await cancelWhenGracefulShutdown { await watchFiles() } }
    }
  }

  private func watchSignals() async {
    for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
      do {
        let configuration = try load()
        Log.reload(configuration.log)
        services.use(configuration)
      } catch {
        logger.error("not reloaded (SIGHUP): \(error); nothing has changed")
      }
      reload(because: "SIGHUP")
    }
  }

  private func watchFiles() async {
    let files = tls?.files.all ?? []
    var known = FileStamps(files)
    var seen = known
    while !Task.isCancelled {
      try? await Task.sleep(for: .seconds(GatewayReload.pollSeconds))
      let now = FileStamps(files)
      // Waits until a file that is being written has stopped changing.
      if now == seen, !now.isIncomplete, now != known {
        known = now
        reload(because: "a file changed")
      }
      seen = now
    }
  }

  private func reload(because reason: String) {
    guard let tls else { return }
    do {
      try tls.reload()
      logger.notice("the certificate was read again (\(reason))")
    } catch {
      logger.error("the certificate was not read again (\(reason)): \(error); the old one stays")
    }
  }
}
