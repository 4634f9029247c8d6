package import PushCore
import PushIO

/// A prepared audience: reads the chunks of its sets in order and evaluates them, in bounded memory.
package final class AudienceReader {
  /// A set's entry in its bucket.
  enum SetState {
    /// Its ordinals, ascending.
    case few([UInt32])
    /// Its ordinals are in chunks.
    case many

    /// nil: the registry did not write it.
    init?(_ bytes: [UInt8]) {
      if bytes == [UInt8(ascii: "*")] {
        self = .many
        return
      }
      guard bytes.count % 4 == 0 else { return nil }
      var ordinals: [UInt32] = []
      for index in stride(from: 0, to: bytes.count, by: 4) {
        let ordinal = (0..<4).reduce(UInt32(0)) { $0 | UInt32(bytes[index + $1]) << UInt32(8 * $1) }
        guard ordinals.last.map({ $0 < ordinal }) ?? true else { return nil }
        ordinals.append(ordinal)
      }
      self = .few(ordinals)
    }
  }

  package let plan: FilterPlan
  /// The registry's epoch before the audience's ordinals were read; 0: it had none.
  package let epoch: UInt64
  /// Number of chunks: their indexes are below it.
  package let chunkCount: Int
  private let redis: RedisClient
  private let keys: RegistryKeys
  private let names: [DeviceSetName]
  private let states: [SetState]
  /// Indexes of the sets in chunks.
  private let large: [Int]
  private var evaluation: FilterEvaluation

  /// Maximum keys of one command: half a MiB of bitmaps.
  private static let keysMaximum = 64
  /// Maximum bytes of read-ahead.
  private static let aheadBytes = 4 << 20
  private static let aheadMaximum = 16

  init(
    redis: RedisClient, keys: RegistryKeys, plan: FilterPlan, names: [DeviceSetName], states: [SetState],
    ordinalCount: Int, epoch: UInt64
  ) {
    self.redis = redis
    self.keys = keys
    self.plan = plan
    self.names = names
    self.states = states
    self.epoch = epoch
    chunkCount = (ordinalCount + OrdinalChunk.count - 1) / OrdinalChunk.count
    large = states.indices.filter { if case .many = states[$0] { true } else { false } }
    evaluation = FilterEvaluation(plan)
  }

  // MARK: - Chunks

  /// The audience's devices in one chunk.
  package func evaluate(chunk: Int, then: @escaping SegmentThen<ChunkBitmap>) {
    guard isWorthReading(chunk) else { return then(.success(ChunkBitmap())) }
    parts(of: chunk) { [self] result in then(result.map { evaluated($0) }) }
  }

  /// Reads ahead, and reports chunks in order; skips chunks without a device of the audience.
  /// - Parameters:
  ///   - chunk: the first one; `OrdinalChunk.index(of:)` of a cursor.
  ///   - each: receives a chunk's index and its devices; returns false to stop.
  ///   - then: called after the last chunk, a stop or a failure. `each` is not called afterwards.
  package func stream(
    from chunk: Int = 0, each: @escaping (Int, ChunkBitmap) -> Bool, then: @escaping SegmentThen<Void>
  ) {
    let bytes = max(1, large.count) * OrdinalChunk.bitmapBytes
    let ahead = max(1, min(AudienceReader.aheadMaximum, AudienceReader.aheadBytes / bytes))
    AudienceStream(self, from: max(0, chunk), ahead: ahead, each: each, then: then).goOn()
  }

  /// Whether the chunk may have a device of the audience, judged by the small sets, which are in memory.
  func isWorthReading(_ chunk: Int) -> Bool {
    guard 0..<chunkCount ~= chunk else { return false }
    return plan.canMatch { index in
      switch states[index] {
      case .many: true
      case .few(let ordinals): ordinals.contains { OrdinalChunk.index(of: $0) == chunk }
      }
    }
  }

  func evaluated(_ parts: [ChunkPart]) -> ChunkBitmap {
    evaluation.evaluate(parts)
    return evaluation.result
  }

  /// The part of each set in a chunk.
  func parts(of chunk: Int, then: @escaping SegmentThen<[ChunkPart]>) {
    let parts = Parts(
      states.map { if case .few(let ordinals) = $0 { ChunkPart(ordinals: ordinals, chunk: chunk) } else { .none } })
    guard !large.isEmpty else { return then(.success(parts.values)) }
    for start in stride(from: 0, to: large.count, by: AudienceReader.keysMaximum) {
      let sets = large[start..<min(start + AudienceReader.keysMaximum, large.count)]
      let chunkKeys = sets.map { keys.chunk(chunk, of: names[$0]) }
      parts.left += 1
      redis.call(["MGET"] + chunkKeys, key: keys.next) { result in
        parts.left -= 1
        switch result {
        case .failure(let failure): parts.failure = parts.failure ?? failure.failure
        case .success(.array(let values)) where values.count == sets.count:
          for (value, (set, key)) in zip(values, zip(sets, chunkKeys)) where value != .null {
            if case .bulk(let bytes) = value, let part = ChunkPart(value: bytes) {
              parts.values[set] = part
            } else {
              parts.failure = parts.failure ?? .foreign(key: key)
            }
          }
        case .success: parts.failure = parts.failure ?? .foreign(key: chunkKeys[0])
        }
        guard parts.left == 0 else { return }
        then(parts.failure.map { .failure($0) } ?? .success(parts.values))
      }
    }
  }

  /// Collects the answers.
  private final class Parts {
    var values: [ChunkPart]
    var left = 0
    var failure: SegmentFailure?

    init(_ values: [ChunkPart]) { self.values = values }
  }

  // MARK: - All at once

  /// The number of devices in the audience.
  package func count(then: @escaping SegmentThen<Int>) {
    var count = 0
    stream(
      each: { _, devices in
        count += devices.count
        return true
      },
      then: { result in then(result.map { count }) })
  }

  /// A uniform random sample of the audience, ascending, and the number of all its devices. The whole audience if it is
  /// not larger than `limit`.
  /// - Parameter limit: maximum size of the sample.
  package func sample(
    _ limit: Int, using random: SeededRandom, then: @escaping SegmentThen<(ordinals: [UInt32], count: Int)>
  ) {
    var random = random
    var chosen: [UInt32] = []
    var count = 0
    stream(
      each: { chunk, devices in
        // Reservoir sampling.
        var place = 0
        while let found = devices.next(from: place) {
          place = found + 1
          count += 1
          let ordinal = UInt32(chunk * OrdinalChunk.count + found)
          if chosen.count < limit {
            chosen.append(ordinal)
          } else if limit > 0, case let drawn = Int.random(in: 0..<count, using: &random), drawn < limit {
            chosen[drawn] = ordinal
          }
        }
        return true
      },
      then: { result in then(result.map { (chosen.sorted(), count) }) })
  }

  /// Those of the plan's sets that have a device. One whose ordinals are in chunks counts as such: it has, or had, many.
  var setsWithDevices: Set<DeviceSet> {
    var found: Set<DeviceSet> = []
    for (set, state) in zip(plan.sets, states) {
      switch state {
      case .few([]): break
      case .few, .many: found.insert(set)
      }
    }
    return found
  }
}
