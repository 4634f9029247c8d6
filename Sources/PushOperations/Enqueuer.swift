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
    /// Jobs that the broker confirmed.
    package var confirmed: Int
  }

  private let access: BrokerAdmin
  private let configuration: Configuration

  package init(_ configuration: Configuration) throws {
    access = try BrokerAdmin(configuration)
    self.configuration = configuration
  }

  /// Publishes every line of `input`. Numbers the jobs whose order matters, unless their producer did, by Redis' clock as the gateways do. The
  /// topology is declared first, so that jobs are kept until the first worker starts.
  /// - Parameter tell: receives why RabbitMQ takes nothing for now, or jobs are not numbered.
  package func run(_ input: FileHandle, jobClass: JobClass, tell: @escaping (String) -> Void) throws -> Result {
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
    var read = 0
    var clock = SequenceClock()
    let lines = LineReader(input, lineLimit: .max) {}
    while true {
      let (batch, isAtEnd) = lines.take(orWaitMilliseconds: 200)
      for line in batch {
        guard case .bytes(let body) = line else { continue }
        properties.reset()
        let now = wallClock.unixMilliseconds
        if knowsTime { properties.setTimestamp(unixMilliseconds: now) }
        let isNumbered = !knowsTime || !JobSequence.isMissing(in: body)
        try admin.publish(
          to: exchange, routingKey: jobClass.name, properties: properties,
          body: isNumbered ? body : JobSequence.adding(clock.take(now: now * 1_000), to: body))
        read += 1
      }
      if isAtEnd && batch.isEmpty { break }
      // Reads heartbeats, and alarms, while no line comes.
      if batch.isEmpty { try admin.wait(milliseconds: 0) }
    }
    try admin.waitForConfirms()
    return Result(read: read, confirmed: admin.results.confirmed)
  }
}
