package import Foundation
import PushCore
package import PushCredentials
import PushIO
package import PushSettings

/// A lane without RabbitMQ and Redis: jobs as JSON Lines go straight to APNs, outcomes come back as JSON Lines.
package enum JSONLinesLane {
  /// Occupies the calling thread until the input has ended and everything is answered; `control` may drain it from another thread. Returns
  /// its last report, and if outcomes could not be written, why. Throws if it cannot start.
  package static func run(
    input: FileHandle, output: FileHandle, _ control: LaneControl, _ settings: LaneSettings,
    configuration: Configuration, credentials: Credentials, log: @escaping (LaneNotice) -> Void
  ) throws -> (report: LaneReport, outputError: String?) {
    let loop = try EventLoop()
    let mailbox = loop.mailbox
    let reader = LineReader(input, lineLimit: Limits.jobBytesMaximum) { mailbox.wake() }
    let broker = JSONLinesBroker(input: reader, output: output) { loop.now.unixMilliseconds }
    var memory = AdmissionMemory.Settings()
    memory.claimSeconds = configuration.claimSeconds
    let push = APNsPushService(
      loop: loop, credentials: credentials, configuration: APNsPushServiceConfiguration(configuration.apns), seed: 1)
    let lane = Lane(
      broker: broker, state: MemoryAdmissionStore(settings: memory, limits: configuration.limits.rates), push: push,
      clock: LoopClock(loop: loop), settings: settings)
    var thread = LaneThread(
      lane: lane, loop: loop, control: control, describe: { _, _, _ in },
      takeNotices: { lane in
        var notices: [LaneNotice] = []
        while let notice = lane.push.takeNotice() { notices.append(LaneNotice(notice)) }
        return notices
      },
      log: log, close: { _ in }, isClosed: { $0.push.isClosed }, endsWhenExhausted: true)
    let report = thread.run()
    return (report, thread.lane.broker.outputError)
  }
}
