import Foundation
package import Logging
package import PushSettings
import Synchronization

/// Writes the log: whole lines to stderr, from any thread, as text or JSON. Never a password, token or payload.
package final class Log: Sendable {
  private struct State {
    var level: Logger.Level
  }

  private let isJSON: Bool
  private let state: Mutex<State>
  private let write: @Sendable (String) -> Void

  /// `write` gets whole lines, one at a time; the default writes to stderr.
  package init(
    level: Logger.Level = .info, format: LogFormat = .auto, write: (@Sendable (String) -> Void)? = nil
  ) {
    state = Mutex(State(level: level))
    isJSON =
      switch format {
      case .auto: isatty(FileHandle.standardError.fileDescriptor) == 0
      case .json: true
      case .text: false
      }
    // A log that cannot be written (a full disk, a closed pipe) must not stop the work.
    self.write = write ?? { line in try? FileHandle.standardError.write(contentsOf: Data(line.utf8)) }
  }

  /// The process's log, after `bootstrap`.
  private static let ofProcess = Mutex<Log?>(nil)

  /// Makes every logger of this process write to stderr as configured. Called once, by an executable.
  package static func bootstrap(_ configuration: Configuration.Log) -> Logger {
    let log = Log(level: configuration.level, format: configuration.format)
    ofProcess.withLock { $0 = log }
    LoggingSystem.bootstrap { LogHandlerToStandardError(label: $0, log: log) }
    return Logger(label: "herald")
  }

  /// SIGHUP: sets the new level, also for existing loggers.
  package static func reload(_ configuration: Configuration.Log) {
    ofProcess.withLock { $0 }?.level = configuration.level
  }

  /// A change applies at once, also to existing loggers.
  package var level: Logger.Level {
    get { state.withLock(\.level) }
    set { state.withLock { $0.level = newValue } }
  }

  /// A logger that writes here. `label`: the part of the program.
  package func logger(_ label: String) -> Logger {
    Logger(label: label) { LogHandlerToStandardError(label: $0, log: self) }
  }

  func write(_ event: LogEvent, label: String, metadata: Logger.Metadata) {
    let line =
      isJSON
      ? LogLine.json(event, label: label, metadata: metadata, at: .now)
      : LogLine.text(event, label: label, metadata: metadata, at: .now)
    // Under the lock, so that lines of different threads are not mixed.
    state.withLock { _ in write(line) }
  }
}

/// The handler for swift-log: keeps a logger's metadata, and passes its events on.
private struct LogHandlerToStandardError: LogHandler {
  let label: String
  let log: Log
  var metadata: Logger.Metadata = [:]
  var metadataProvider: Logger.MetadataProvider?
  /// nil: the log's own level.
  private var ownLevel: Logger.Level?

  init(label: String, log: Log) {
    self.label = label
    self.log = log
  }

  var logLevel: Logger.Level {
    get { ownLevel ?? log.level }
    set { ownLevel = newValue }
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    var all = metadata
    if let provided = metadataProvider?.get() { all.merge(provided) { _, new in new } }
    if let own = event.metadata { all.merge(own) { _, new in new } }
    log.write(event, label: label, metadata: all)
  }
}
