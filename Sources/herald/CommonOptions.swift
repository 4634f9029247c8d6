import ArgumentParser
import Foundation
import Logging
import PushSettings
import PushWorker

/// Options of every command that reads a configuration.
struct CommonOptions: ParsableArguments {
  @Option(
    name: .customLong("config"),
    help: "The configuration file. Default: HERALD_CONFIG, config/herald.yaml, /etc/herald/herald.yaml.")
  var file: String?

  @Option(help: "trace, debug, info, notice, warning, error or critical.")
  var logLevel: String?

  /// The configuration, or its problems on stderr and exit 78.
  func load() throws -> Configuration {
    do {
      return try reader()
    } catch {
      throw Exit.configuration("\(error)")
    }
  }

  /// Reads the configuration on each call.
  var reader: @Sendable () throws -> Configuration {
    { [file, logLevel] in
      let environment = ProcessInfo.processInfo.environment
      let overrides = logLevel.map { [ConfigurationLoader.Override(flag: "--log-level", path: "log.level", text: $0)] }
      return try ConfigurationLoader.load(
        file: file ?? ConfigurationLoader.defaultFile(environment: environment), environment: environment,
        overrides: overrides ?? [])
    }
  }

  /// The configuration and its logger.
  func begin() throws -> (configuration: Configuration, logger: Logger) {
    let configuration = try load()
    return (configuration, Log.bootstrap(configuration.log))
  }
}

/// The exits of a command, as scripts see them.
enum Exit {
  /// The work failed.
  static func failure(_ text: String) -> any Error {
    say(text)
    return ExitCode(1)
  }

  /// The configuration is wrong.
  static func configuration(_ text: String) -> any Error {
    say(text)
    return ExitCode(78)
  }

  /// Prints a note on stderr; the command goes on.
  static func note(_ text: String) { say(text) }

  private static func say(_ text: String) {
    for line in text.split(separator: "\n") { FileHandle.standardError.write(Data("herald: \(line)\n".utf8)) }
  }
}
