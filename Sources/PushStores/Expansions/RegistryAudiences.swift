import PushCore
import PushIO

/// Finds the devices of audiences in the registry, part by part. It belongs to its Redis client's thread.
final class RegistryAudiences {
  /// A part of an audience.
  enum Part {
    /// `ordinals`: ascending. `next`: where the rest starts; nil: no rest. `given`: approximate number of ordinals that
    /// the scope has allocated. `epoch`: of the ordinals.
    case found(ordinals: [UInt32], next: UInt32?, given: UInt32, epoch: UInt64)
    /// There is no such audience: the reason, for people.
    case refused(String)
    /// It could not be read.
    case failed(ReadingFailure)
  }

  private let evaluator: SegmentEvaluator

  init(redis: RedisClient, prefix: String) {
    evaluator = SegmentEvaluator(redis: redis, prefix: prefix)
  }

  /// The devices of an audience from an ordinal on: whole chunks up to `maximum` devices, and as many of the last chunk
  /// as fit.
  /// - Parameter unixMilliseconds: the base of conditions in days.
  func read(
    _ audience: AudienceQuery, in scope: AppScope, from ordinal: UInt32, maximum: Int, unixMilliseconds: Int64,
    then: @escaping (Part) -> Void
  ) {
    evaluator.open(audience, in: scope, unixMilliseconds: unixMilliseconds) { result in
      switch result {
      case .failure(.filter(let error)): then(.refused("\(error)"))
      case .failure(let failure): then(.failed(ReadingFailure(failure)))
      case .success(let reader): RegistryAudiences.collect(reader, from: ordinal, maximum: maximum, then: then)
      }
    }
  }

  /// Which of these devices are in an audience, and which are not.
  /// - Parameter ordinals: ascending.
  func split(
    _ ordinals: [UInt32], by audience: AudienceQuery, in scope: AppScope,
    then: @escaping SegmentThen<(able: [UInt32], others: [UInt32])>
  ) {
    guard let first = ordinals.first else { return then(.success(([], []))) }
    evaluator.open(audience, in: scope, unixMilliseconds: 0) { result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let reader):
        var (able, others): ([UInt32], [UInt32]) = ([], [])
        var rest = ordinals[...]
        reader.stream(from: OrdinalChunk.index(of: first)) { chunk, devices in
          while let ordinal = rest.first, OrdinalChunk.index(of: ordinal) <= chunk {
            let isAble =
              OrdinalChunk.index(of: ordinal) == chunk && devices.contains(OrdinalChunk.place(of: ordinal))
            if isAble { able.append(ordinal) } else { others.append(ordinal) }
            rest.removeFirst()
          }
          return !rest.isEmpty
        } then: { result in
          then(result.map { (able, others + rest) })
        }
      }
    }
  }

  private static func collect(
    _ reader: AudienceReader, from ordinal: UInt32, maximum: Int, then: @escaping (Part) -> Void
  ) {
    var ordinals: [UInt32] = []
    var next: UInt32?
    let first = OrdinalChunk.index(of: ordinal)
    reader.stream(from: first) { chunk, devices in
      var place = chunk == first ? Int(OrdinalChunk.place(of: ordinal)) : 0
      while let found = devices.next(from: place) {
        let device = UInt32(chunk * OrdinalChunk.count + found)
        guard ordinals.count < maximum else {
          next = device
          return false
        }
        ordinals.append(device)
        place = found + 1
      }
      return true
    } then: { result in
      switch result {
      case .failure(let failure): then(.failed(ReadingFailure(failure)))
      case .success:
        let given = UInt32(clamping: reader.chunkCount * OrdinalChunk.count)
        then(.found(ordinals: ordinals, next: next, given: given, epoch: reader.epoch))
      }
    }
  }
}

extension AudienceQuery {
  /// nil: the job's segment is not a valid code.
  init?(_ job: borrowing PushJob) {
    let bytes = job.bytes
    let names = job.targets.map { String(decoding: bytes[$0.range], as: UTF8.self) }
    switch job.targetKind {
    case .devices: self = .devices(names)
    case .users: self = .users(names)
    case .segment:
      guard let code = SegmentCode(names[0]) else { return nil }
      self = .segment(code)
    case .token, .tokens, .channel, .activity, .page: preconditionFailure("the job names no audience")
    }
  }
}
