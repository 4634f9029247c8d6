package import PushCore
import PushIO

extension DeviceRegistry {
  /// A stored device.
  package struct Entry: Hashable, Sendable {
    package var ordinal: UInt32
    package var record: DeviceRecord

    package init(ordinal: UInt32, record: DeviceRecord) {
      self.ordinal = ordinal
      self.record = record
    }
  }

  /// The devices with these ordinals, in the same order; nil: no such device (any more).
  /// - Parameter epoch: of the ordinals, where they come from a message; 0: they were just read.
  package func records(
    of ordinals: [UInt32], epoch: UInt64 = 0, in scope: AppScope, then: @escaping Then<[DeviceRecord?]>
  ) {
    guard !ordinals.isEmpty else { return then(.success([])) }
    var packed: [UInt8] = []
    packed.reserveCapacity(ordinals.count * 4)
    for ordinal in ordinals { packed += DeviceCommit.bytes(ordinal) }
    var arguments = RedisArguments()
    arguments.append(packed)
    arguments.append(epoch == 0 ? "" : "\(epoch)")
    run(DeviceScript.records, arguments, in: scope) { [self] result in
      switch result {
      case .failure(let failure):
        then(.failure(failure))
      case .success(.array(let replies)) where replies.count == ordinals.count:
        let bytes = replies.map { reply -> [UInt8]? in if case .bulk(let bytes) = reply { bytes } else { nil } }
        decode(bytes, in: scope, hasLearned: false, then)
      case .success:
        then(.failure(.unreadable("\(keys(scope).tag): does something else use these keys?")))
      }
    }
  }

  /// What is read from now on, for `fingerprints`.
  package var generation: UInt64 { redis.generation }

  /// The fingerprints of the devices with these ordinals, in the same order; 0: it has none; `UInt32.max`: there is no such device.
  /// - Parameter generation: of before the ordinals were read: if Redis may have been rewound since, they may be other devices'. nil: it does not
  ///   matter.
  package func fingerprints(
    of ordinals: [UInt32], since generation: UInt64? = nil, in scope: AppScope, then: @escaping Then<[UInt32]>
  ) {
    guard !ordinals.isEmpty else { return then(.success([])) }
    var packed: [UInt8] = []
    packed.reserveCapacity(ordinals.count * 4)
    for ordinal in ordinals { packed += DeviceCommit.bytes(ordinal) }
    var arguments = RedisArguments()
    arguments.append(packed)
    run(DeviceScript.fingerprints, arguments, in: scope) { [self] result in
      then(
        result.flatMap { reply in
          guard generation.map({ $0 == redis.generation }) ?? true else {
            return .failure(.redis("it was connected again while devices were read"))
          }
          guard case .bulk(let bytes) = reply, bytes.count == packed.count else {
            return .failure(.unreadable("\(keys(scope).tag): does something else use these keys?"))
          }
          return .success(OrdinalList.all(bytes))
        })
    }
  }

  private func decode(
    _ records: [[UInt8]?], in scope: AppScope, hasLearned: Bool, _ then: @escaping Then<[DeviceRecord?]>
  ) {
    let known = entry(scope)
    var decoded: [DeviceRecord?] = []
    decoded.reserveCapacity(records.count)
    var unknown: Set<UInt32> = []
    for bytes in records {
      do throws(DeviceRecordError) {
        decoded.append(
          try bytes.map { bytes throws(DeviceRecordError) in try DeviceRecord.decoded(bytes, known.words).record })
      } catch {
        guard case .unknownWords(let numbers) = error, !hasLearned else {
          return then(.failure(.unreadable(error, known.keys)))
        }
        unknown.formUnion(numbers)
      }
    }
    guard !unknown.isEmpty else { return then(.success(decoded)) }
    learn(unknown, known) { [self] failure in
      if let failure { return then(.failure(failure)) }
      decode(records, in: scope, hasLearned: true, then)
    }
  }

  /// A page of a set's devices, ascending: at most `limit` after `ordinal`.
  package func entries(
    of set: DeviceSet, after ordinal: UInt32? = nil, limit: Int, in scope: AppScope, then: @escaping Then<[Entry]>
  ) {
    members(of: set, after: ordinal, limit: limit, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let ordinals):
        records(of: ordinals, in: scope) {
          then(
            $0.map { records in
              // Skip devices that were removed meanwhile.
              zip(ordinals, records).compactMap { ordinal, record in record.map { Entry(ordinal: ordinal, record: $0) }
              }
            })
        }
      }
    }
  }

  /// The epoch of ordinals that are read after it; 0: there are none.
  package func epoch(in scope: AppScope, then: @escaping Then<UInt64>) {
    let key = keys(scope).epoch
    ask(["GET", key], key: key) { then($0.map { $0.text.flatMap(UInt64.init) ?? 0 }) }
  }

  /// The number of devices in a set.
  package func count(_ set: DeviceSet, in scope: AppScope, then: @escaping Then<Int>) {
    let name = DeviceSetName(set)
    var arguments = RedisArguments()
    arguments.append(Int64(name.bucket))
    arguments.append(name.wordBytes)
    arguments.append(name.wordDigits)
    run(DeviceScript.count, arguments, in: scope) { result in
      then(
        result.flatMap { reply in
          guard case .integer(let count) = reply else { return .failure(.unreadable("unexpected reply to a count")) }
          return .success(Int(count))
        })
    }
  }

  /// All apps and environments that have or had devices.
  package func scopes(then: @escaping Then<[AppScope]>) {
    let key = RegistryKeys.scopes(prefix: prefix)
    var found: Set<AppScope> = []
    redis.scan(.set, key) { names in
      found.formUnion(names.compactMap { $0.text.flatMap(AppScope.init(registryName:)) })
    } then: { result in
      then(
        result.map { found.sorted { ($0.app, $0.environment.rawValue) < ($1.app, $1.environment.rawValue) } }
          .mapError(DeviceRegistryFailure.init))
    }
  }
}

extension AppScope {
  /// `<environment>:<app>`.
  fileprivate init?(registryName: String) {
    let parts = registryName.split(separator: ":", maxSplits: 1)
    guard parts.count == 2, let environment = APNsEnvironment.allCases.first(where: { $0.name == parts[0] }) else {
      return nil
    }
    self.init(app: String(parts[1]), environment: environment)
  }
}
