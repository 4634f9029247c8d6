package import Logging
package import PushCore
package import PushIO
package import PushLane

/// Takes update tokens of activities from the registration consumer: stores them, and publishes the push that a late one is due, before it
/// answers.
///
/// Not Sendable: it belongs to the thread of its loop.
package final class ActivityRegistrar {
  package typealias Then = (Result<RegistrationAnswer, DeviceRegistryFailure>) -> Void

  private let redis: RedisClient
  private let devices: DeviceRegistry
  private let activities: ActivityRegistry
  private let pushes: LatePushes
  private var parser = JobParser()
  /// Pushes that late tokens were due.
  package private(set) var latePushes: UInt64 = 0

  /// - Parameters:
  ///   - rabbitmq: its lane name tells who publishes.
  ///   - prefix: begins the name of every key.
  ///   - seed: of the pauses between connects.
  package init(
    loop: EventLoop, rabbitmq: RabbitMQSettings, redis configuration: RedisConfiguration, tls: TLSContext?,
    prefix: String,
    seed: UInt64, notice: @escaping (Logger.Level, String) -> Void
  ) {
    redis = RedisClient(loop: loop, configuration: configuration, tls: tls, seed: seed)
    devices = DeviceRegistry(loop: loop, redis: redis, prefix: prefix)
    activities = ActivityRegistry(loop: loop, redis: redis, prefix: prefix)
    pushes = LatePushes(loop: loop, settings: rabbitmq, notice: notice)
  }

  /// Once in each turn of the loop.
  package func turn() {
    redis.turn()
    devices.turn()
    pushes.turn()
  }

  /// What was asked for is asked for again.
  package func forget() { pushes.forget() }

  /// Says goodbye. Keep turning until `isClosed`.
  package func close() {
    pushes.close()
    redis.close()
  }

  package var isClosed: Bool { pushes.isClosed }

  /// A device's update token for an activity, or that the activity is over on it.
  /// - Parameter at: when the device said so, Unix milliseconds.
  package func register(
    _ registration: ActivityRegistration, at: Int64, in scope: AppScope, then: @escaping Then
  ) {
    guard let id = ActivityID(registration.activity) else {
      return then(.success(.refused(JobError(field: "activity", rule: "must be 1 to \(Limits.idBytesMaximum) bytes"))))
    }
    ordinal(of: registration.device, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let ordinal?): store(registration, id, ordinal, at, scope, then)
      case .success(nil):
        // An activity may be the first that is heard of a device.
        devices.register(DeviceRegistration(device: registration.device), at: at, in: scope) { [self] result in
          switch result {
          case .failure, .success(.forgotten), .success(.refused): then(result)
          case .success(.added), .success(.changed), .success(.unchanged), .success(.older):
            again(registration, id, at, scope, then)
          }
        }
      }
    }
  }

  private func again(
    _ registration: ActivityRegistration, _ id: ActivityID, _ at: Int64, _ scope: AppScope, _ then: @escaping Then
  ) {
    ordinal(of: registration.device, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(nil): then(.success(.forgotten))
      case .success(let ordinal?): store(registration, id, ordinal, at, scope, then)
      }
    }
  }

  private func ordinal(
    of device: String, in scope: AppScope, then: @escaping (Result<UInt32?, DeviceRegistryFailure>) -> Void
  ) {
    devices.members(of: .id(device), limit: 1, in: scope) { then($0.map(\.first)) }
  }

  private func store(
    _ registration: ActivityRegistration, _ id: ActivityID, _ ordinal: UInt32, _ at: Int64, _ scope: AppScope,
    _ then: @escaping Then
  ) {
    activities.register(id, in: scope, ordinal: ordinal, token: registration.token ?? [], at: at) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(.redis("\(failure)")))
      case .success(let registered):
        switch registered.answer {
        case .ignored: then(.success(.older))
        case .stored, .over: then(.success(.changed))
        case .late:
          publish(registered.body, device: registration.device, ordinal: ordinal, then: then)
        }
      }
    }
  }

  private func publish(_ body: [UInt8], device: String, ordinal: UInt32, then: @escaping Then) {
    var job = PushJob()
    job.bytes = body
    job.bodyCount = body.count
    let none: [UInt8] = []
    do throws(JobError) {
      try parser.parse(into: &job, fallbackID: none.span)
    } catch {
      return then(.failure(.unreadable("the activity's newest state in Redis is no job: \(error.detail)")))
    }
    guard job.targetKind.isAudience else {
      return then(.failure(.unreadable("the activity's newest state in Redis is no update and no end")))
    }
    latePushes += 1
    var late: [UInt8] = []
    PageWriter.append(job, late: device, ordinal: ordinal, to: &late)
    // A message id holds 255 bytes at most; the body names it anyway.
    let id = Array(job.bytes[job.id.range]) + Array("/late/\(device)".utf8)
    pushes.publish(late, id: Array(id.prefix(255))) { then(.success(.changed)) }
  }
}
