/// What a fault does to one request. Every part may be absent; then that part is as usual.
package struct FaultEffect: Hashable, Sendable {
  /// The delay of the answer.
  package enum Latency: Hashable, Sendable {
    case fixed(milliseconds: Int64)
    /// Uniform between the two.
    case uniform(Int64, Int64)
    /// Exponential with this mean, limited to 20 times the mean.
    case exponential(meanMilliseconds: Int64)
  }

  /// The body of an error answer.
  package enum BodyForm: Hashable, Sendable {
    case whole
    /// Headers only.
    case missing
    /// In DATA frames of this many bytes.
    case split(Int)
    /// This text instead of JSON.
    case raw(String)
  }

  package struct Answer: Hashable, Sendable {
    package var status: Int
    package var reason: String?
    /// Unix milliseconds; nil: one hour ago if the status is 410.
    package var timestamp: Int64?

    package init(status: Int, reason: String?, timestamp: Int64? = nil) {
      self.status = status
      self.reason = reason
      self.timestamp = timestamp
    }
  }

  /// How the request ends instead of an answer.
  package enum Ending: Hashable, Sendable {
    /// RST_STREAM with this code.
    case reset(UInt32)
    /// The connection breaks.
    case drop
    /// No answer is ever sent.
    case silence
  }

  /// GOAWAY's last stream id.
  package enum LastStream: Hashable, Sendable {
    /// This request's id: it is still answered.
    case this
    /// The previous request's id: this request counts as not processed.
    case previous
    /// The highest possible id: a warning, nothing is refused.
    case all
    case number(Int32)
  }

  package struct GoAway: Hashable, Sendable {
    package var last: LastStream
    package var code: UInt32 = 0
    /// Written as `{"reason":"…"}` into the debug data; nil: none.
    package var reason: String?

    package init(last: LastStream, code: UInt32 = 0, reason: String? = nil) {
      self.last = last
      self.code = code
      self.reason = reason
    }
  }

  /// SETTINGS frames, one after the other.
  package struct StreamLimits: Hashable, Sendable {
    package var values: [Int]
    package var intervalMilliseconds: Int64

    package init(values: [Int], intervalMilliseconds: Int64 = 100) {
      self.values = values
      self.intervalMilliseconds = intervalMilliseconds
    }
  }

  package var latency: Latency?
  package var answer: Answer?
  package var body: BodyForm?
  package var ending: Ending?
  /// With `ending`: whether the request is processed first, so that the ledger counts it as accepted.
  package var isProcessed = false
  package var goAway: GoAway?
  package var streamLimits: StreamLimits?
  /// After the answer, for Live Activities only.
  package var activity = ActivityFault()

  package init() {}

  package var isEmpty: Bool {
    latency == nil && answer == nil && body == nil && ending == nil && goAway == nil && streamLimits == nil
      && activity.isEmpty
  }

  /// Takes from `other` the parts that are absent here.
  package mutating func fill(from other: FaultEffect) {
    if latency == nil { latency = other.latency }
    if answer == nil { answer = other.answer }
    if body == nil { body = other.body }
    if ending == nil, other.ending != nil {
      ending = other.ending
      isProcessed = other.isProcessed
    }
    if goAway == nil { goAway = other.goAway }
    if streamLimits == nil { streamLimits = other.streamLimits }
    activity.fill(from: other.activity)
  }
}

extension FaultEffect.Latency {
  package func milliseconds(_ random: inout SeededBits) -> Int64 {
    switch self {
    case .fixed(let milliseconds): milliseconds
    case .uniform(let low, let high): Int64.random(in: low...high, using: &random)
    case .exponential(let mean): Int64(Double(mean) * FaultEffect.Latency.exponentialDraw(&random))
    }
  }

  /// An exponential draw of mean 1 without a logarithm (von Neumann's comparison method), at most 20.
  private static func exponentialDraw(_ random: inout SeededBits) -> Double {
    var whole = 0.0
    while whole < 20 {
      let first = random.fraction()
      var last = first
      var count = 1
      while true {
        let next = random.fraction()
        if next >= last { break }
        last = next
        count += 1
      }
      if count % 2 == 1 { return whole + first }
      whole += 1
    }
    return whole
  }
}
