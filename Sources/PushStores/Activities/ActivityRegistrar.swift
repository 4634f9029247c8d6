package import PushCore
import PushIO
package import PushLane

/// Stores the update tokens of activities. Publishes the push for a late token before it answers.
///
/// Belongs to its registries' loop's thread.
package final class ActivityRegistrar {
  package typealias Then = (Result<RegistrationAnswer, DeviceRegistryFailure>) -> Void

  private let devices: DeviceRegistry
  private let activities: ActivityRegistry
  private let publisher: ConfirmedPublisher
  private let jobs: AMQPExchange
  private var parser = JobParser()
  /// Pushes to late tokens.
  package private(set) var latePushes: UInt64 = 0

  package init(
    devices: DeviceRegistry, activities: ActivityRegistry, publisher: ConfirmedPublisher, topology: Topology
  ) {
    self.devices = devices
    self.activities = activities
    self.publisher = publisher
    jobs = AMQPExchange(topology.jobsExchange, isMandatory: true)
  }

  /// Registers a device's update token for an activity, or that the activity is over on it.
  /// - Parameter at: when the device reported it, Unix milliseconds.
  package func register(
    _ registration: ActivityRegistration, at: Int64, in scope: AppScope, then: @escaping Then
  ) {
    guard let id = ActivityID(registration.activity) else {
      return then(.success(.refused(JobError(field: "activity", rule: NameText.rule))))
    }
    find(registration.device, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let device?): storeUnlessForgotten(registration, id, device, at, scope, then)
      case .success(nil):
        // An activity's token may be the first sign of a device.
        devices.appear(registration.device, at: at, in: scope) { [self] result in
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
    find(registration.device, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      // An older forget, which came later, took it away. This token counts unless it is older still.
      case .success(nil): register(registration, at: at, in: scope, then: then)
      case .success(let device?): storeUnlessForgotten(registration, id, device, at, scope, then)
      }
    }
  }

  /// The device may have been forgotten and have registered again since: a token that is older than the forget is ignored.
  private func storeUnlessForgotten(
    _ registration: ActivityRegistration, _ id: ActivityID, _ device: Device, _ at: Int64, _ scope: AppScope,
    _ then: @escaping Then
  ) {
    devices.isForgotten(registration.device, at: at, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(true): then(.success(.forgotten))
      case .success(false): store(registration, id, device, at, scope, then)
      }
    }
  }

  private struct Device: Hashable {
    let ordinal: UInt32
    let fingerprint: UInt32
  }

  private func find(
    _ id: String, in scope: AppScope, then: @escaping (Result<Device?, DeviceRegistryFailure>) -> Void
  ) {
    devices.members(of: .id(id), limit: 1, in: scope) { [devices] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let ordinals):
        guard let ordinal = ordinals.first else { return then(.success(nil)) }
        devices.fingerprints(of: [ordinal], in: scope) {
          then($0.map { $0.first.map { Device(ordinal: ordinal, fingerprint: $0) } })
        }
      }
    }
  }

  private func store(
    _ registration: ActivityRegistration, _ id: ActivityID, _ device: Device, _ at: Int64, _ scope: AppScope,
    _ then: @escaping Then
  ) {
    activities.register(
      id, in: scope, ordinal: device.ordinal, device: device.fingerprint, token: registration.token ?? [], at: at
    ) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(DeviceRegistryFailure(failure)))
      case .success(let registered):
        guard registered.answer != .ignored else { return then(.success(.older)) }
        ask(registration, at, is: device, in: scope, id, then) { [self] in
          guard case .late = registered.answer else { return then(.success(.changed)) }
          publish(registered.body, registration, device, then: then)
        }
      }
    }
  }

  /// Removes the membership if the device was forgotten meanwhile. Either this sees that the device is gone, or the
  /// forget, which checks activities after it removed the device, sees the membership. Then it begins anew: a registration that is newer than
  /// the forget counts.
  private func ask(
    _ registration: ActivityRegistration, _ at: Int64, is device: Device, in scope: AppScope, _ id: ActivityID,
    _ then: @escaping Then, _ stays: @escaping () -> Void
  ) {
    find(registration.device, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(device): stays()
      case .success:
        activities.forget([device.ordinal], of: id, in: scope) { [self] result in
          switch result {
          case .failure(let failure): then(.failure(DeviceRegistryFailure(failure)))
          case .success: register(registration, at: at, in: scope, then: then)
          }
        }
      }
    }
  }

  private func publish(
    _ body: [UInt8], _ registration: ActivityRegistration, _ device: Device, then: @escaping Then
  ) {
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
    let late = LatePage(
      job, to: registration.device, ordinal: device.ordinal, fingerprint: device.fingerprint,
      token: registration.token ?? [])
    let at = activities.now
    let message = ConfirmedPublisher.Message(
      exchange: jobs, routingKey: Array(JobClass.transactional.name.utf8),
      describe: { properties, _ in
        RabbitMQPublishProperties(properties).describeLatePage(late.id, apnsID: late.apnsID, unixMilliseconds: at)
      },
      // Its body is kept, so it is always confirmed in the end.
      then: { _ in then(.success(.changed)) })
    publisher.publish(late.body, as: message)
  }
}
