import Foundation
package import PushCore
import PushIO
import PushLane
package import PushSettings
package import PushStores

/// Live Activities for commands: one thing after another, on a loop of its own.
package final class ActivitiesClient {
  /// One activity and its members, by the ids of their devices.
  package struct Shown: Sendable {
    package let activity: ActivityRegistry.Snapshot
    /// Of members whose devices are registered; the others were forgotten.
    package let devices: [UInt32: String]
  }

  /// One activity and some of its members.
  package struct Page: Sendable {
    package let activity: ActivityRegistry.Snapshot
    package var counts = ActivityRegistry.MemberCounts()
    package var page = ActivityRegistry.MemberPage()
    /// By ordinal. Of the others, the devices were forgotten.
    package var devices: [UInt32: String] = [:]

    init(activity: ActivityRegistry.Snapshot) {
      self.activity = activity
    }
  }

  private let loop: EventLoop
  private let redis: RedisClient
  private let activities: ActivityRegistry
  private let registry: DeviceRegistry
  private let configuration: Configuration

  private static let waitMilliseconds = 50
  /// Devices in one reply.
  private static let part = 500

  /// Throws what is wrong with the configuration.
  package init(_ configuration: Configuration) throws {
    self.configuration = configuration
    let redisConfiguration = try RedisConfiguration(url: configuration.registryURL)
    loop = try EventLoop(wallClock: FleetTime.wallClock(configuration))
    redis = RedisClient(
      loop: loop, configuration: redisConfiguration, tls: try configuration.redis.tls(redisConfiguration),
      seed: UInt64.random(in: .min ... .max))
    activities = ActivityRegistry(loop: loop, redis: redis, prefix: configuration.redis.prefix)
    registry = DeviceRegistry(
      loop: loop, redis: redis, prefix: configuration.redis.prefix, seed: .random(in: .min ... .max))
  }

  package func close() {
    redis.close()
    loop.flush()
  }

  /// Unix milliseconds.
  package var now: Int64 { loop.now.unixMilliseconds }

  /// An app's activities, the newest first; without their members.
  package func list(_ scope: AppScope, limit: Int) throws -> [ActivityRegistry.Snapshot] {
    try wait { activities.list(scope, limit: limit, then: $0) }
  }

  /// nil: it is not known.
  package func show(_ id: ActivityID, in scope: AppScope) throws -> Shown? {
    guard let activity = try wait({ activities.show(id, in: scope, then: $0) }) else { return nil }
    let ordinals = activity.members.keys.sorted()
    var devices: [UInt32: String] = [:]
    for start in stride(from: 0, to: ordinals.count, by: ActivitiesClient.part) {
      let part = Array(ordinals[start..<min(start + ActivitiesClient.part, ordinals.count)])
      let records = try wait { registry.records(of: part, in: scope, then: $0) }
      for (ordinal, record) in zip(part, records) { devices[ordinal] = record?.id }
    }
    return Shown(activity: activity, devices: devices)
  }

  /// Publishes the job that ends an activity, for all its devices or for some. Returns the job's id. Throws where there is nothing to end.
  /// - Parameter dismissalDate: Unix seconds; nil: the system's own.
  package func end(
    _ id: ActivityID, in scope: AppScope, devices: [String], dismissalDate: Int64?
  ) throws -> String {
    guard let activity = try wait({ activities.state(id, in: scope, then: $0) }) else { throw NotRunning.unknown(id) }
    switch activity.phase(now: now) {
    // The pushes of an end may have reached nobody.
    case .starting, .active, .ended: break
    case .expired: throw NotRunning.expired(id)
    }
    let access = try BrokerAdmin(configuration)
    let job = UUID().uuidString.lowercased()
    var aps: [String: Any] = ["event": "end"]
    if let dismissalDate { aps["dismissal-date"] = dismissalDate }
    var body: [String: Any] = [
      "version": 1, "id": job, "app": scope.app, "environment": scope.environment.name, "push_type": "liveactivity",
      "payload": ["aps": aps],
    ]
    // Newer than all that is shown, whatever the clocks of those are that numbered it.
    let sequence = max(now * 1_000, (activity.content?.place ?? 0) &+ 1)
    body["sequence"] = min(sequence, Limits.sequenceMaximum)
    if devices.isEmpty {
      body["to"] = ["activity": id.text]
    } else {
      body["to"] = ["devices": devices]
      body["activity"] = id.text
    }
    let admin = try access.connect("activities")
    defer { admin.close() }
    try admin.perform(all: access.topology.declarations)
    let properties = AMQPProperties()
    properties.setTimestamp(unixMilliseconds: now)
    try admin.publish(
      to: AMQPExchange(access.topology.jobsExchange, isMandatory: true), routingKey: JobClass.transactional.name,
      properties: properties, body: Array(try JSONSerialization.data(withJSONObject: body, options: .sortedKeys)))
    try admin.waitForConfirms()
    guard admin.results.confirmed == 1 else { throw NotTaken() }
    return job
  }

  /// No running activity has this id.
  package enum NotRunning: Error, CustomStringConvertible {
    case unknown(ActivityID)
    case expired(ActivityID)

    package var description: String {
      switch self {
      case .unknown(let id):
        """
        the activity \(TextTable.printable(id.text)) is not known: no start and no update token of it came within \
        \(ActivityState.memoryMilliseconds / 3_600_000) hours, or only for another app or environment
        """
      case .expired(let id):
        """
        the activity \(TextTable.printable(id.text)) has expired, \(ActivityState.lifeMilliseconds / 3_600_000) hours after its start
        """
      }
    }
  }

  package struct NotTaken: Error, CustomStringConvertible {
    package var description: String { "RabbitMQ did not take the job; nothing is ended" }
  }

  private func wait<Value, Failure: Error>(_ ask: (@escaping (Result<Value, Failure>) -> Void) -> Void) throws -> Value
  {
    var answer: Result<Value, Failure>?
    // The loop's time is that of its last turn, which may be long ago.
    loop.poll(maximumWaitMilliseconds: 0)
    ask { answer = $0 }
    while true {
      redis.turn()
      registry.turn()
      loop.flush()
      if let answer { return try answer.get() }
      loop.poll(maximumWaitMilliseconds: ActivitiesClient.waitMilliseconds)
    }
  }
}
