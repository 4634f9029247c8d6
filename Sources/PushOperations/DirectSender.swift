package import Foundation
package import Logging
package import PushCore
import PushCredentials
import PushIO
package import PushLane
package import PushSettings

/// Sends jobs from JSON Lines directly to APNs, and writes outcomes as JSON Lines: one lane without RabbitMQ and Redis.
package struct DirectSender {
  package struct Failure: Error, CustomStringConvertible {
    let text: String
    package var description: String { text }
  }

  private let configuration: Configuration
  private let credentials: Credentials
  private let logger: Logger

  /// Loads keys and certificates.
  package init(_ configuration: Configuration, logger: Logger) throws {
    self.configuration = configuration
    self.logger = logger
    credentials = try Credentials(configuration.credentials, for: configuration.apns)
  }

  /// Sends all jobs in `input`, writes outcomes to `output`, and returns the number of each kind. Blocks its thread; `control` may drain it
  /// from another one.
  package func run(
    input: FileHandle, output: FileHandle, control: LaneControl
  ) throws -> [(outcome: Outcome, count: UInt64)] {
    defer { control.end() }
    let settings = LaneSettings(
      workerName: "\(ProcessInfo.processInfo.hostName)/send", prefetch: 2000, retry: configuration.retry,
      onLimit: configuration.limits.onLimit, drainTimeoutMilliseconds: configuration.drainTimeoutMilliseconds,
      randomSeed: UInt64.random(in: .min ... .max))
    let (report, outputError) = try JSONLinesLane.run(
      input: input, output: output, control, settings, configuration: configuration, credentials: credentials
    ) { [logger] notice in logger.log(level: notice.level, "\(notice.text)", metadata: notice.metadata) }
    if let outputError { throw Failure(text: "outcomes could not be written: \(outputError)") }
    return Outcome.allCases.map { outcome in
      (outcome, report.counters.outcomeCounts.reduce(0) { $0 + ($1.outcome == outcome ? $1.count : 0) })
    }
  }
}
