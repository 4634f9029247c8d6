/// Which devices of an app and environment belong to a segment.
///
/// A filter that a parser made keeps the bounds of `SegmentLimits`; its text in JSON is `json`, which is parsed to the same filter.
package indirect enum SegmentFilter: Hashable, Sendable {
  /// At least one filter; so has `any`.
  case all([SegmentFilter])
  case any([SegmentFilter])
  /// All devices of the app and environment but those: also the ones that lack the tag.
  case not(SegmentFilter)
  case leaf(SegmentCondition)

  /// Levels, its own among them: 1 for a condition.
  package var depth: Int {
    switch self {
    case .all(let filters), .any(let filters): 1 + (filters.lazy.map(\.depth).max() ?? 0)
    case .not(let filter): 1 + filter.depth
    case .leaf: 1
    }
  }

  package var conditionCount: Int {
    var count = 0
    forEachCondition { _ in count += 1 }
    return count
  }

  /// The segments that it names, each once.
  package var segments: Set<SegmentCode> {
    var codes: Set<SegmentCode> = []
    forEachCondition { if case .segment(let code) = $0 { codes.insert(code) } }
    return codes
  }

  /// Where the filter leads to what is wrong with its segments.
  package func place(_ error: FilterPlanError) -> SegmentFilterError {
    let pointer = error.way.first.flatMap(pointer(to:))
    return SegmentFilterError(.pointer(pointer ?? ""), error.description)
  }

  /// Where a segment is named first.
  private func pointer(to code: SegmentCode) -> String? {
    switch self {
    case .all(let filters): SegmentFilter.pointer(to: code, in: filters, "/all")
    case .any(let filters): SegmentFilter.pointer(to: code, in: filters, "/any")
    case .not(let filter): filter.pointer(to: code).map { "/not" + $0 }
    case .leaf(let condition): condition == .segment(code) ? "/segment" : nil
    }
  }

  private static func pointer(to code: SegmentCode, in filters: [SegmentFilter], _ name: String) -> String? {
    for (index, filter) in filters.enumerated() {
      if let pointer = filter.pointer(to: code) { return "\(name)/\(index)\(pointer)" }
    }
    return nil
  }

  private func forEachCondition(_ body: (SegmentCondition) -> Void) {
    switch self {
    case .all(let filters), .any(let filters): for filter in filters { filter.forEachCondition(body) }
    case .not(let filter): filter.forEachCondition(body)
    case .leaf(let condition): body(condition)
    }
  }
}

/// A filter's leaf: what one device has or has not.
package enum SegmentCondition: Hashable, Sendable {
  /// The tag is the value; a tag that is a list has it as a member.
  case tagIs(String, SegmentValue)
  /// One of the values, as in `tagIs`. At least one, each once.
  case tagIn(String, [SegmentValue])
  /// The tag is a number, and at least this one.
  case tagAtLeast(String, Double)
  case tagAtMost(String, Double)
  case tagExists(String)
  /// Lower case, with hyphens: `en` takes `en-gb` too.
  case locale(String)
  case osAtLeast(OSVersion)
  /// Days are those of UTC, and whole: nobody is left out who was seen within so many times 24 hours, and some are taken
  /// that were seen up to a day before.
  case seenWithin(days: Int32)
  case hasToken
  /// Has a push-to-start token that serves this attributes type: one for it, or one for any type. `*`: one for any type.
  case hasPushToStart(String)
  case segment(SegmentCode)
}

/// What a tag is compared with.
package enum SegmentValue: Hashable, Sendable {
  case text(String)
  /// Finite; -0 is 0.
  case number(Double)
  case flag(Bool)
}
