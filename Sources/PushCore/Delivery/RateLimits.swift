/// The rates of devices: one for all, and others for some apps and push types.
package struct RateLimits: Hashable, Sendable {
  /// Another rate for what it names.
  package struct Override: Hashable, Sendable {
    /// A bundle id; empty: every app.
    package let app: [UInt8]
    /// nil: every type.
    package let pushType: PushType?
    /// nil: no limit.
    package let limit: RateLimit?

    package init(app: [UInt8], pushType: PushType?, limit: RateLimit?) {
      self.app = app
      self.pushType = pushType
      self.limit = limit
    }
  }

  /// Overrides have numbers from 1 on, in one byte.
  package static let overridesMaximum = 64

  /// nil: no limit.
  package let common: RateLimit?
  /// The first one that fits a job holds.
  package let overrides: [Override]

  package init(_ common: RateLimit?, overrides: [Override] = []) {
    precondition(overrides.count <= RateLimits.overridesMaximum)
    self.common = common
    self.overrides = overrides
  }

  package static let none = RateLimits(nil)

  /// Nothing is limited.
  package var isEmpty: Bool { common == nil && overrides.allSatisfy { $0.limit == nil } }

  /// How many numbers `number(for:)` gives.
  package var count: Int { overrides.count + 1 }

  /// Which rate holds for the job: 0 for the common one.
  package func number(for job: borrowing PushJob) -> UInt8 {
    if overrides.isEmpty { return 0 }
    let bytes = job.bytes.span
    for index in overrides.indices {
      if let type = overrides[index].pushType, type != job.pushType { continue }
      let app = overrides[index].app
      if app.isEmpty || ByteHash.areSame(app.span, bytes.extracting(job.app.range)) { return UInt8(index + 1) }
    }
    return 0
  }

  package subscript(_ number: UInt8) -> RateLimit? {
    number == 0 ? common : overrides[Int(number) - 1].limit
  }

  /// One of `shares` equal parts of each.
  package func share(of shares: Int) -> RateLimits {
    RateLimits(
      common?.share(of: shares),
      overrides: overrides.map { Override(app: $0.app, pushType: $0.pushType, limit: $0.limit?.share(of: shares)) })
  }
}
