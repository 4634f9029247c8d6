package import Foundation
package import Logging
package import PushCore
import PushIO

/// Jobs as JSON Lines straight to APNs, outcomes as JSON Lines back: one lane with neither RabbitMQ nor Redis.
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

  /// Sends everything that `input` has, writes outcomes to `output`, and returns how many there were of each kind.
  /// Blocks its thread; `control` may drain it from another.
  package func run(
    input: FileHandle, output: FileHandle, control: LaneControl
  ) throws -> [(outcome: Outcome, count: UInt64)] {
    defer { control.end() }
    let loop = try EventLoop()
    let mailbox = loop.mailbox
    let reader = LineReader(input, lineLimit: Limits.jobBytesMaximum) { mailbox.wake() }
    let broker = JSONLinesBroker(input: reader, output: output) { loop.now.unixMilliseconds }
    var memory = GateMemory.Settings()
    memory.claimSeconds = configuration.claimSeconds
    let push = APNsPushService(
      loop: loop, credentials: credentials, configuration: APNsPushServiceConfiguration(configuration.apns), seed: 1)
    let settings = LaneSettings(
      workerName: "\(ProcessInfo.processInfo.hostName)/send", prefetch: 2000, retry: configuration.retry,
      onLimit: configuration.limits.onLimit, drainTimeoutMilliseconds: configuration.drainTimeoutMilliseconds,
      randomSeed: UInt64.random(in: .min ... .max))
    let lane = Lane(
      broker: broker, state: MemorySharedState(settings: memory, limits: configuration.limits.rates), push: push,
      clock: LoopClock(loop: loop), settings: settings)
    var thread = LaneThread(
      lane: lane, loop: loop, control: control, describe: { _, _, _ in },
      takeNotices: { lane in
        var notices: [LaneNotice] = []
        while let notice = lane.push.takeNotice() { notices.append(LaneNotice(notice)) }
        return notices
      },
      log: { [logger] notice in logger.log(level: notice.level, "\(notice.text)", metadata: notice.metadata) },
      close: { _ in }, isClosed: { $0.push.isClosed }, endsWhenExhausted: true
    )
    let report = thread.run()
    if let error = thread.lane.broker.outputError { throw Failure(text: "outcomes could not be written: \(error)") }
    return Outcome.allCases.map { outcome in
      (outcome, report.counters.outcomeCounts.reduce(0) { $0 + ($1.outcome == outcome ? $1.count : 0) })
    }
  }
}
