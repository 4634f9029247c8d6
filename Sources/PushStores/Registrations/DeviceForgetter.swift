package import PushCore
import PushIO

/// Forgets devices, or users with all their devices, and their Live Activities.
///
/// Marks them as forgotten first: from then on no older registration adds a device that the next steps would not see. Removes devices from
/// their activities before it forgets them: after a crash between the two steps, a retry still finds the devices. Then it removes them once
/// more, because an update token may have come meanwhile. Belongs to the thread of its registries' loop.
package final class DeviceForgetter {
  private let devices: DeviceRegistry
  private let activities: ActivityRegistry

  /// Maximum devices of a user in one step.
  private static let part = 128

  package init(devices: DeviceRegistry, activities: ActivityRegistry) {
    self.devices = devices
    self.activities = activities
  }

  /// Like `DeviceRegistry.forget`.
  /// - Parameter at: Unix milliseconds.
  package func forget(
    _ subject: ForgottenSubject, at: Int64, in scope: AppScope, then: @escaping DeviceRegistry.Then<Int>
  ) {
    devices.mark(subject, at: at, in: scope) { [self] failure in
      if let failure { return then(.failure(failure)) }
      leave(subject, at, scope, after: nil, []) { [self] result in
        switch result {
        case .failure(let failure): then(.failure(failure))
        case .success(let ordinals):
          devices.forget(subject, at: at, in: scope) { [self] result in
            guard case .success(let count) = result else { return then(result) }
            activities.forget(ordinals, in: scope) { then($0.map { count }.mapError { .redis("\($0)") }) }
          }
        }
      }
    }
  }

  /// Pages through the devices. Returns the ordinals of those to forget.
  private func leave(
    _ subject: ForgottenSubject, _ at: Int64, _ scope: AppScope, after ordinal: UInt32?, _ found: [UInt32],
    _ then: @escaping DeviceRegistry.Then<[UInt32]>
  ) {
    let set: DeviceSet =
      switch subject {
      case .device(let id): .id(id)
      case .user(let user): .user(user)
      }
    devices.members(of: set, after: ordinal, limit: DeviceForgetter.part, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let ordinals):
        guard let last = ordinals.last else { return then(.success(found)) }
        devices.records(of: ordinals, in: scope) { [self] result in
          switch result {
          case .failure(let failure): then(.failure(failure))
          case .success(let records):
            let now = devices.loop.now.unixMilliseconds
            let concerned = zip(ordinals, records).filter { isConcerned($1, subject, at: at, now: now) }.map(\.0)
            activities.forget(concerned, in: scope) { [self] result in
              if case .failure(let failure) = result { return then(.failure(.redis("\(failure)"))) }
              leave(subject, at, scope, after: last, found + concerned, then)
            }
          }
        }
      }
    }
  }

  private func isConcerned(_ record: DeviceRecord?, _ subject: ForgottenSubject, at: Int64, now: Int64) -> Bool {
    guard let record,
      DeviceChange.forgetting(record, at: at, now: now, fingerprint: record.fingerprint) != record
    else { return false }
    return switch subject {
    case .device(let id): record.id.hasBytes(of: id)
    case .user(let user): record.user?.hasBytes(of: user) ?? false
    }
  }
}
