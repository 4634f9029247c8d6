package import Foundation
package import PushCore
import PushIO
import PushLane
package import PushSettings
import PushStores

/// Puts jobs into the jobs exchange, for `herald enqueue`.
package struct Enqueuer {
  package struct Result: Sendable {
    /// Lines with a job.
    package var read: Int
    /// Those of them that are no job, and were not published.
    package var invalid: Int
    /// Jobs that the broker confirmed.
    package var confirmed: Int
  }

  private let access: BrokerAdmin
  private let configuration: Configuration

  package init(_ configuration: Configuration) throws {
    access = try BrokerAdmin(configuration)
    self.configuration = configuration
  }

  /// Publishes every line of `input` that is a job. Numbers the jobs whose order matters, unless their producer did, by Redis' clock as the
  /// gateways do. The topology is declared first, so that jobs are kept until the first worker starts.
  /// - Parameters:
  ///   - isChecked: what no worker would send is not published.
  ///   - tell: receives why RabbitMQ takes nothing for now, jobs are not numbered, or lines are no jobs.
  package func run(
    _ input: FileHandle, jobClass: JobClass, isChecked: Bool = true, tell: @escaping (String) -> Void
  ) throws -> Result {
    let wallClock = FleetTime.wallClock(configuration)
    // By a clock that is hours ahead, later jobs would be older for hours.
    let knowsTime = wallClock.hasRedisTime
    if !knowsTime {
      tell(
        "Redis does not tell the time: jobs get neither a sequence nor a timestamp, and count by when a worker receives them"
      )
    }
    let admin = try access.connect("enqueue")
    defer { admin.close() }
    let seconds = admin.settleMilliseconds / 1_000
    admin.onBlocked = { tell("\($0); waiting for at most \(seconds) s") }
    try admin.perform(all: access.topology.declarations)
    let exchange = AMQPExchange(access.topology.jobsExchange, isMandatory: true)
    let properties = AMQPProperties()
    var (number, read, invalid) = (0, 0, 0)
    var clock = SequenceClock()
    var parser = JobParser()
    let lines = LineReader(input, lineLimit: .max) {}
    while true {
      let (batch, isAtEnd) = lines.take(orWaitMilliseconds: 200)
      for line in batch {
        number += 1
        guard case .bytes(let body) = line else { continue }
        read += 1
        if isChecked, let fault = Enqueuer.fault(of: body, &parser) {
          invalid += 1
          if invalid <= Enqueuer.faultsMaximum { tell("line \(number): \(fault.detail)") }
          if invalid == 1, fault.rule.hasPrefix("is not JSON") {
            tell("each line is one whole job: `jq -c .` writes them so")
          }
          continue
        }
        properties.reset()
        let now = wallClock.unixMilliseconds
        if knowsTime { properties.setTimestamp(unixMilliseconds: now) }
        let isNumbered = !knowsTime || !JobSequence.isMissing(in: body)
        try admin.publish(
          to: exchange, routingKey: jobClass.name, properties: properties,
          body: isNumbered ? body : JobSequence.adding(clock.take(now: now * 1_000), to: body))
      }
      if isAtEnd && batch.isEmpty { break }
      // Reads heartbeats, and alarms, while no line comes.
      if batch.isEmpty { try admin.wait(milliseconds: 0) }
    }
    try admin.waitForConfirms()
    return Result(read: read, invalid: invalid, confirmed: admin.results.confirmed)
  }

  /// As many are told one by one.
  private static let faultsMaximum = 5

  private static func fault(of body: [UInt8], _ parser: inout JobParser) -> JobError? {
    guard body.count <= Limits.jobBytesMaximum else {
      return JobError(field: "body", rule: Limits.refusal(ofJobBytes: body.count))
    }
    var job = PushJob()
    job.bytes = body
    job.bodyCount = body.count
    do throws(JobError) {
      try parser.parse(into: &job, fallbackID: Span())
    } catch {
      return error
    }
    return nil
  }
}
