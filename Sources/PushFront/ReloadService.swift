import Foundation
import Logging
import PushSettings
import PushWorker
import ServiceLifecycle
import Synchronization
import UnixSignals

/// Reloads the worker on SIGHUP, and when a file of a key or certificate has changed.
final class ReloadService: Service {
  /// How often files are checked. A file that is being written may be incomplete: it counts when it has stopped changing.
  private static let lookSeconds = 2

  let worker: Worker
  let logger: Logger
  /// Reads the configuration again.
  let load: @Sendable () throws -> Configuration
  /// The files as they were last read.
  private let known = Mutex(FileStamps([]))

  init(worker: Worker, logger: Logger, load: @escaping @Sendable () throws -> Configuration) {
    self.worker = worker
    self.logger = logger
    self.load = load
  }

  func run() async throws {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { await self.hearSignals() }
      group.addTask { await self.watchFiles() }
    }
  }

  private func hearSignals() async {
    for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
      reload(because: "SIGHUP")
    }
  }

  private func watchFiles() async {
    await cancelWhenGracefulShutdown { await self.watchFilesForever() }
  }

  private func watchFilesForever() async {
    var seen = FileStamps(worker.credentialFiles)
    known.withLock { $0 = seen }
    while !Task.isCancelled {
      try? await Task.sleep(for: .seconds(ReloadService.lookSeconds))
      let now = FileStamps(worker.credentialFiles)
      if now == seen, !now.isIncomplete, known.withLock({ $0 != now }) {
        reload(because: "a key or certificate changed")
      }
      seen = now
    }
  }

  private func reload(because reason: String) {
    do {
      let newer = try load()
      // Taken before the files are read: a later change causes another reload.
      let stamps = FileStamps(newer.credentials.flatMap(\.files))
      let older = FileStamps(worker.credentialFiles)
      do {
        try worker.reload(newer)
        known.withLock { $0 = stamps }
      } catch {
        known.withLock { $0 = older }
        throw error
      }
    } catch {
      logger.error("not reloaded (\(reason)): \(error); nothing has changed")
    }
  }
}

/// Identifies the contents of some files by what the file system reports.
struct FileStamps: Equatable, Sendable {
  private struct Stamp: Equatable, Sendable {
    var inode: UInt64
    var size: UInt64
    var modified: Date
  }

  let paths: [String]
  private let stamps: [Stamp?]

  /// One of them cannot be read now.
  var isIncomplete: Bool { stamps.contains { $0 == nil } }

  init(_ paths: [String]) {
    self.paths = paths
    stamps = paths.map { path in
      // Follows links, as mounted secrets are.
      let path = URL(filePath: path).resolvingSymlinksInPath().path(percentEncoded: false)
      guard let attributes = try? FileManager.default.attributesOfItem(atPath: path) else { return nil }
      return Stamp(
        inode: (attributes[.systemFileNumber] as? NSNumber)?.uint64Value ?? 0,
        size: (attributes[.size] as? NSNumber)?.uint64Value ?? 0,
        modified: attributes[.modificationDate] as? Date ?? .distantPast)
    }
  }
}
