package import PushCore
import PushIO

/// The segments of an app and environment, in Redis next to its devices.
///
/// Not Sendable: it belongs to its Redis client's thread, and calls every `then` there.
package final class SegmentStore {
  private let redis: RedisClient
  private let prefix: String

  /// Maximum codes in one command.
  private static let codesMaximum = 64
  /// Maximum segments that a filter may reference, directly or not: a plan with more has too many conditions, or nests
  /// too deep.
  private static let closureMaximum = SegmentLimits.allConditionsMaximum * SegmentLimits.nestingMaximum

  /// - Parameter prefix: `redis.prefix`.
  package init(redis: RedisClient, prefix: String) {
    self.redis = redis
    self.prefix = prefix
  }

  // MARK: - One

  /// Stores a filter under a code, and replaces an existing one. Fails with `filter` if the filter names a missing
  /// segment, or itself.
  /// - Parameter unixMilliseconds: the stored time.
  package func put(
    _ code: SegmentCode, _ filter: SegmentFilter, in scope: AppScope, unixMilliseconds: Int64,
    then: @escaping SegmentThen<Void>
  ) {
    segments(of: filter, in: scope, known: [code: filter]) { [self] result in
      do throws(SegmentFailure) {
        let segments = try result.get()
        do throws(FilterPlanError) {
          _ = try FilterPlan(filter, segments: segments, unixMilliseconds: unixMilliseconds, osVersions: [])
        } catch {
          throw .filter(error)
        }
      } catch {
        return then(.failure(error))
      }
      let entry = SegmentEntry(filter: filter, putAt: unixMilliseconds)
      let key = key(scope)
      redis.call(["HSET", key, code.text], last: entry.encoded, key: key) { then($0.mapError(\.failure).map { _ in }) }
    }
  }

  /// nil: no segment has this code.
  package func entry(_ code: SegmentCode, in scope: AppScope, then: @escaping SegmentThen<SegmentEntry?>) {
    entries([code], in: scope) { result in then(result.map { $0[code] }) }
  }

  /// Deletes a segment that no other segment names.
  package func delete(_ code: SegmentCode, in scope: AppScope, then: @escaping SegmentThen<SegmentDeletion>) {
    all(scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let entries):
        let users = entries.filter { $0.key != code && $0.value.filter.segments.contains(code) }.keys.sorted()
        guard users.isEmpty else { return then(.success(.isNamed(by: users))) }
        let key = key(scope)
        redis.call(["HDEL", key, code.text], key: key) { result in
          then(result.mapError(\.failure).map { $0 == .integer(1) ? .deleted : .unknown })
        }
      }
    }
  }

  // MARK: - Several

  /// The first of these codes that no segment has; nil: there is one for each.
  package func firstMissing(
    of codes: [SegmentCode], in scope: AppScope, then: @escaping SegmentThen<SegmentCode?>
  ) {
    let part = Array(codes.prefix(SegmentStore.codesMaximum))
    guard !part.isEmpty else { return then(.success(nil)) }
    entries(part, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let entries):
        if let missing = part.first(where: { entries[$0] == nil }) { return then(.success(missing)) }
        firstMissing(of: Array(codes.dropFirst(part.count)), in: scope, then: then)
      }
    }
  }

  package func all(_ scope: AppScope, then: @escaping SegmentThen<[SegmentCode: SegmentEntry]>) {
    scan(key(scope), cursor: "0", found: [:], then: then)
  }

  /// The filters of all segments that a filter names, directly or through other segments, as far as they exist.
  package func segments(
    of filter: SegmentFilter, in scope: AppScope, then: @escaping SegmentThen<[SegmentCode: SegmentFilter]>
  ) {
    segments(of: filter, in: scope, known: [:], then: then)
  }

  private func segments(
    of filter: SegmentFilter, in scope: AppScope, known: [SegmentCode: SegmentFilter],
    then: @escaping SegmentThen<[SegmentCode: SegmentFilter]>
  ) {
    let codes = filter.segments.subtracting(known.keys)
    collect(Array(codes), scope, asked: codes, known, then)
  }

  /// Loads these codes, then those that they name.
  private func collect(
    _ codes: [SegmentCode], _ scope: AppScope, asked: Set<SegmentCode>, _ known: [SegmentCode: SegmentFilter],
    _ then: @escaping SegmentThen<[SegmentCode: SegmentFilter]>
  ) {
    guard !codes.isEmpty else { return then(.success(known)) }
    entries(Array(codes.prefix(SegmentStore.codesMaximum)), in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let entries):
        var known = known
        var asked = asked
        var rest = Array(codes.dropFirst(SegmentStore.codesMaximum))
        for (code, entry) in entries {
          known[code] = entry.filter
          for next in entry.filter.segments where known[next] == nil && asked.insert(next).inserted {
            rest.append(next)
          }
        }
        guard asked.count <= SegmentStore.closureMaximum else {
          return then(.failure(.filter(.tooManyConditions([]))))
        }
        collect(rest, scope, asked: asked, known, then)
      }
    }
  }

  private func entries(
    _ codes: [SegmentCode], in scope: AppScope, then: @escaping SegmentThen<[SegmentCode: SegmentEntry]>
  ) {
    let key = key(scope)
    redis.call(["HMGET", key] + codes.map(\.text), key: key) { result in
      then(
        result.mapError(\.failure).flatMap { reply in
          guard case .array(let values) = reply, values.count == codes.count else {
            return .failure(.foreign(key: key))
          }
          var found: [SegmentCode: SegmentEntry] = [:]
          for (code, value) in zip(codes, values) where value != .null {
            guard case .bulk(let bytes) = value, let entry = SegmentEntry(bytes) else {
              return .failure(.foreign(key: "\(key), field \(code)"))
            }
            found[code] = entry
          }
          return .success(found)
        })
    }
  }

  private func scan(
    _ key: String, cursor: String, found: [SegmentCode: SegmentEntry],
    then: @escaping SegmentThen<[SegmentCode: SegmentEntry]>
  ) {
    redis.call(["HSCAN", key, cursor, "COUNT", String(SegmentStore.codesMaximum)], key: key) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure.failure))
      case .success(let reply):
        guard case .array(let parts) = reply, parts.count == 2, let next = parts[0].text,
          case .array(let values) = parts[1], values.count % 2 == 0
        else { return then(.failure(.foreign(key: key))) }
        var found = found
        for index in stride(from: 0, to: values.count, by: 2) {
          guard let text = values[index].text, let code = SegmentCode(text), case .bulk(let bytes) = values[index + 1],
            let entry = SegmentEntry(bytes)
          else { return then(.failure(.foreign(key: key))) }
          found[code] = entry
        }
        if next == "0" { return then(.success(found)) }
        scan(key, cursor: next, found: found, then: then)
      }
    }
  }

  private func key(_ scope: AppScope) -> String { RegistryKeys(prefix: prefix, scope: scope).segments }
}

/// The result of deleting a segment.
package enum SegmentDeletion: Hashable, Sendable {
  case deleted
  /// No segment had this code.
  case unknown
  /// Not deleted: these segments name it.
  case isNamed(by: [SegmentCode])
}

extension RegistryKeys {
  /// Hash: a segment's code → `SegmentEntry`.
  var segments: String { tag + "segments" }
}

extension RedisClient.Failure {
  var failure: SegmentFailure { isForeignData ? .unreadable(text) : .redis(text) }
}
