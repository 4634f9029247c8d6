/// The size of a row's run.
package struct FaultScale: Sendable {
  /// Jobs offered a second.
  package var rate: Double
  /// Milliseconds before, during and after the fault.
  package var beforeMilliseconds: Int64
  package var faultMilliseconds: Int64
  package var afterMilliseconds: Int64
  /// How long the run waits for outcomes after the last job.
  package var patienceMilliseconds: Int64
  /// A connection's requests before GOAWAY; twice as many before a cut.
  package var requestsToGoAway: Int
  /// The longest time from a request to its answer.
  package var requestTimeoutMilliseconds: Int64
  package var retryDelaysSeconds: [Int]
  /// The latency of every answer.
  package var latencyMilliseconds = 20

  /// The full size.
  package static func full(_ row: FaultRow, rate: Double = 5_000) -> FaultScale {
    var scale = FaultScale(
      rate: rate, beforeMilliseconds: 5_000, faultMilliseconds: 15_000, afterMilliseconds: 5_000,
      patienceMilliseconds: 200_000, requestsToGoAway: 1_000, requestTimeoutMilliseconds: 10_000,
      retryDelaysSeconds: [1, 5, 30, 120, 600])
    switch row {
    case .unavailable:
      (scale.beforeMilliseconds, scale.faultMilliseconds, scale.afterMilliseconds) = (15_000, 30_000, 10_000)
    case .handshake: (scale.faultMilliseconds, scale.afterMilliseconds) = (60_000, 5_000)
    case .streams: (scale.faultMilliseconds, scale.afterMilliseconds) = (3_000, 10_000)
    case .window: (scale.faultMilliseconds, scale.afterMilliseconds) = (15_000, 20_000)
    // The second connection opens a second after the first; by then, all jobs that waited for it are sent.
    case .blackHole: scale.beforeMilliseconds = 10_000
    case .none, .goAway, .refusedSome, .refusedHalf, .cut: break
    }
    return scale
  }

  /// For tests: small enough for an unoptimised build on a busy machine.
  package static func short(_ row: FaultRow) -> FaultScale {
    var scale = FaultScale(
      rate: 300, beforeMilliseconds: 1_000, faultMilliseconds: 2_000, afterMilliseconds: 1_000,
      patienceMilliseconds: 60_000, requestsToGoAway: 100, requestTimeoutMilliseconds: 10_000,
      retryDelaysSeconds: [1, 2, 4])
    switch row {
    case .unavailable:
      (scale.beforeMilliseconds, scale.faultMilliseconds, scale.afterMilliseconds) = (3_000, 3_000, 4_000)
    case .handshake: (scale.faultMilliseconds, scale.afterMilliseconds) = (3_000, 2_000)
    case .streams: (scale.faultMilliseconds, scale.afterMilliseconds) = (1_000, 3_000)
    // The second connection opens a second after the first; it must be open before one goes silent.
    case .blackHole:
      (scale.beforeMilliseconds, scale.faultMilliseconds) = (3_000, 4_000)
      scale.requestTimeoutMilliseconds = 2_000
    case .window: (scale.faultMilliseconds, scale.afterMilliseconds) = (2_000, 3_000)
    case .none, .goAway, .refusedSome, .refusedHalf, .cut: break
    }
    return scale
  }

  /// One and a half times the streams that carry the offered rate at its latency.
  var streamsNeeded: Int { max(2, Int(rate * Double(latencyMilliseconds) / 1000 * 1.5)) }
}
