package import PushCore
import PushIO

/// Forgets devices, or users with all their devices, and their Live Activities.
///
/// Marks them as forgotten first: from then on no older registration adds a device that the next steps would not see. Removes devices from
/// their activities before it forgets them: after a crash between the two steps, a retry still finds the devices. Then it removes them once
/// more, because an update token may have come meanwhile. A device that stays, because it was seen since, stays in the activities that it
/// joined since. Belongs to the thread of its registries' loop.
package final class DeviceForgetter {
  private let devices: DeviceRegistry
  private let activities: ActivityRegistry

  /// Maximum devices of a user in one step.
  private static let part = 128

  /// A device as it was before.
  private struct Known {
    let ordinal: UInt32
    let fingerprint: UInt32
  }

  private struct Forget {
    let subject: ForgottenSubject
    let at: Int64
    let scope: AppScope
  }

  package init(devices: DeviceRegistry, activities: ActivityRegistry) {
    self.devices = devices
    self.activities = activities
  }

  /// Like `DeviceRegistry.forget`.
  /// - Parameter at: Unix milliseconds.
  package func forget(
    _ subject: ForgottenSubject, at: Int64, in scope: AppScope, then: @escaping DeviceRegistry.Then<Int>
  ) {
    let forget = Forget(subject: subject, at: at, scope: scope)
    devices.mark(subject, at: at, in: scope) { [self] failure in
      if let failure { return then(.failure(failure)) }
      leave(forget, after: nil, []) { [self] result in
        switch result {
        case .failure(let failure): then(.failure(failure))
        case .success(let known):
          devices.forget(subject, at: at, in: scope) { [self] result in
            guard case .success(let count) = result else { return then(result) }
            leaveAgain(known[...], forget) { then($0.map { count }) }
          }
        }
      }
    }
  }

  /// Pages through the devices. Returns those that it concerns.
  private func leave(
    _ forget: Forget, after ordinal: UInt32?, _ found: [Known], _ then: @escaping DeviceRegistry.Then<[Known]>
  ) {
    let set: DeviceSet =
      switch forget.subject {
      case .device(let id): .id(id)
      case .user(let user): .user(user)
      }
    devices.members(of: set, after: ordinal, limit: DeviceForgetter.part, in: forget.scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let ordinals):
        guard let last = ordinals.last else { return leaveFormer(forget, from: 0, found, then) }
        let now = devices.loop.now.unixMilliseconds
        leave(ordinals, forget) {
          switch forget.subject {
          case .device(let id): $1.id.hasBytes(of: id)
          case .user(let user): DeviceTransaction.Owner(user: user).had($1, at: forget.at, now: now)
          }
        } then: { [self] result in
          guard case .success(let known) = result else { return then(result) }
          leave(forget, after: last, found + known, then)
        }
      }
    }
  }

  /// The devices that were the user's at that time.
  private func leaveFormer(
    _ forget: Forget, from offset: Int, _ found: [Known], _ then: @escaping DeviceRegistry.Then<[Known]>
  ) {
    guard case .user(let user) = forget.subject else { return then(.success(found)) }
    devices.formerDevices(of: user, at: forget.at, in: forget.scope, from: offset) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let (former, next)):
        let now = devices.loop.now.unixMilliseconds
        let isConcerned = { (ordinal: UInt32, record: DeviceRecord) in
          former.contains {
            $0.ordinal == ordinal
              && DeviceTransaction.Owner(user: user, until: $0.until).had(
                record, at: forget.at, now: now)
          }
        }
        leave(former.map(\.ordinal), forget, if: isConcerned) { [self] result in
          guard case .success(let known) = result, let next else { return then(result.map { found + $0 }) }
          leaveFormer(forget, from: next, found + known, then)
        }
      }
    }
  }

  private func leave(
    _ ordinals: [UInt32], _ forget: Forget, if isConcerned: @escaping (UInt32, DeviceRecord) -> Bool,
    then: @escaping DeviceRegistry.Then<[Known]>
  ) {
    devices.records(of: ordinals, in: forget.scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let records):
        var known: [Known] = []
        var gone: [UInt32] = []
        var staying: [Known] = []
        for (ordinal, record) in zip(ordinals, records) {
          guard let record, isConcerned(ordinal, record) else { continue }
          known.append(Known(ordinal: ordinal, fingerprint: record.fingerprint))
          let left = DeviceChange.forgetting(
            record, at: forget.at, now: devices.loop.now.unixMilliseconds, fingerprint: record.fingerprint)
          if left == nil { gone.append(ordinal) } else { staying.append(known[known.count - 1]) }
        }
        activities.forget(gone, in: forget.scope) { [self] result in
          if case .failure(let failure) = result { return then(.failure(DeviceRegistryFailure(failure))) }
          // Their fingerprints may change with their records, later.
          stay(staying.map { ($0, $0.fingerprint) }[...], forget) { then($0.map { known }) }
        }
      }
    }
  }

  private func leaveAgain(
    _ known: ArraySlice<Known>, _ forget: Forget, _ then: @escaping DeviceRegistry.Then<Void>
  ) {
    let part = known.prefix(DeviceForgetter.part)
    if part.isEmpty { return then(.success(())) }
    devices.fingerprints(of: part.map(\.ordinal), in: forget.scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let fingerprints):
        let all = zip(part, fingerprints)
        activities.forget(all.filter { $1 == .max }.map(\.0.ordinal), in: forget.scope) { [self] result in
          if case .failure(let failure) = result { return then(.failure(DeviceRegistryFailure(failure))) }
          stay(all.filter { $1 != .max }[...], forget) { [self] result in
            if case .failure = result { return then(result) }
            leaveAgain(known.dropFirst(part.count), forget, then)
          }
        }
      }
    }
  }

  /// Removes devices that are not removed themselves from the activities that they joined up to then.
  private func stay(
    _ devices: ArraySlice<(Known, UInt32)>, _ forget: Forget, _ then: @escaping DeviceRegistry.Then<Void>
  ) {
    guard let (known, fingerprint) = devices.first else { return then(.success(())) }
    activities.forget(
      known.ordinal, upTo: forget.at, from: known.fingerprint, to: fingerprint, in: forget.scope
    ) { [self] result in
      if case .failure(let failure) = result { return then(.failure(DeviceRegistryFailure(failure))) }
      stay(devices.dropFirst(), forget, then)
    }
  }
}
