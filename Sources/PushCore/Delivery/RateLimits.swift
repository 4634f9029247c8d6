/// The rates of devices: a common one, and overrides for some apps and push types.
package struct RateLimits: Hashable, Sendable {
  /// A different rate for some apps or push types.
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

  package static let overridesMaximum = 64

  /// nil: no limit.
  package let common: RateLimit?
  /// The first override that matches a job applies.
  package let overrides: [Override]
  /// The common rate's rule, then the overrides'.
  package let rules: [RateRule]

  package init(_ common: RateLimit?, overrides: [Override] = []) {
    precondition(overrides.count <= RateLimits.overridesMaximum)
    self.common = common
    self.overrides = overrides
    rules =
      [RateRule(app: [], pushType: nil, limit: common, number: 0)]
      + overrides.enumerated().map { index, override in
        RateRule(app: override.app, pushType: override.pushType, limit: override.limit, number: UInt8(index + 1))
      }
  }

  package static let none = RateLimits(nil)

  /// Nothing is limited.
  package var isEmpty: Bool { common == nil && overrides.allSatisfy { $0.limit == nil } }

  /// The rule for this job.
  package func rule(for job: borrowing PushJob) -> RateRule {
    if overrides.isEmpty { return rules[0] }
    let bytes = job.bytes.span
    for index in overrides.indices {
      if let type = overrides[index].pushType, type != job.pushType { continue }
      let app = overrides[index].app
      if app.isEmpty || ByteHash.areSame(app.span, bytes.extracting(job.app.range)) { return rules[index + 1] }
    }
    return rules[0]
  }

  /// The index in `rules` of a rule that may come from older limits; the common rule's, if it no longer exists.
  package func number(of rule: RateRule) -> UInt8 {
    if Int(rule.number) < rules.count, rules[Int(rule.number)].name == rule.name { return rule.number }
    for known in rules where known.name == rule.name { return known.number }
    return 0
  }
}

/// One rate, identified by app and push type: it stays the same rule if its numbers or its position change.
package struct RateRule: Hashable, Sendable {
  /// 32 bits of a hash of app and push type.
  package let name: UInt32
  /// Names this rate's state of a device, here and in Redis. Without a limit only APNs' refusals count, and nothing that a limit left.
  package var stateName: UInt32 { limit == nil ? ~name : name }
  /// nil: no limit.
  package let limit: RateLimit?
  /// Its index in `RateLimits.rules`.
  package let number: UInt8

  /// No limit.
  package static let none = RateRule(app: [], pushType: nil, limit: nil, number: 0)

  /// - Parameters:
  ///   - app: empty: every app.
  ///   - pushType: nil: every type.
  package init(app: [UInt8], pushType: PushType?, limit: RateLimit?, number: UInt8) {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2072, key1: 0x6174_6520_7275_6C65)
    hash.append(UInt64(UInt32(truncatingIfNeeded: app.count)))
    hash.append(pushType.map { UInt64($0.rawValue) } ?? .max)
    hash.append(padding: app.span)
    name = UInt32(truncatingIfNeeded: hash.finish().first)
    self.limit = limit
    self.number = number
  }
}
