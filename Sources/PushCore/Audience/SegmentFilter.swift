/// The condition for a device of an app and environment to belong to a segment.
///
/// A parsed filter is within `SegmentLimits`; its JSON is `json`, which parses to an equal filter.
package indirect enum SegmentFilter: Hashable, Sendable {
  /// At least one filter; the same for `any`.
  case all([SegmentFilter])
  case any([SegmentFilter])
  /// All other devices of the app and environment, including those without the tag.
  case not(SegmentFilter)
  case leaf(SegmentCondition)

  /// Levels, including its own: 1 for a condition.
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

  /// The error, with the place where the filter names the first segment on the path to it.
  package func place(_ error: FilterPlanError) -> SegmentFilterError {
    let pointer = error.path.first.flatMap(pointer(to:))
    return SegmentFilterError(.pointer(pointer ?? ""), error.description)
  }

  /// The first place that names a segment.
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

/// A leaf of a filter: a condition for one device.
package enum SegmentCondition: Hashable, Sendable {
  /// The tag is this value, or a list that contains it.
  case tagIs(String, SegmentValue)
  /// One of the values, as in `tagIs`. At least one, each once.
  case tagIn(String, [SegmentValue])
  /// The tag is a number, and at least this large.
  case tagAtLeast(String, Double)
  case tagAtMost(String, Double)
  case tagExists(String)
  /// Lower case, with hyphens: `en` includes `en-gb`.
  case locale(String)
  case osAtLeast(OSVersion)
  /// Whole days in UTC: includes every device seen within this many times 24 hours, and some seen up to a day earlier.
  case seenWithin(days: Int32)
  case hasToken
  /// Has a push-to-start token for this attributes type, or one for any type. `*`: one for any type.
  case hasPushToStart(String)
  case segment(SegmentCode)
}

/// A value to compare a tag with.
package enum SegmentValue: Hashable, Sendable {
  case text(String)
  /// Finite; -0 is 0.
  case number(Double)
  case flag(Bool)

  /// Texts are equal if their bytes are.
  package static func == (left: SegmentValue, right: SegmentValue) -> Bool {
    switch (left, right) {
    case (.text(let left), .text(let right)): left.hasBytes(of: right)
    case (.number(let left), .number(let right)): left == right
    case (.flag(let left), .flag(let right)): left == right
    case (.text, _), (.number, _), (.flag, _): false
    }
  }

  package func hash(into hasher: inout Hasher) {
    switch self {
    case .text(let text): hasher.combine(ByteText(text))
    case .number(let number): hasher.combine(number)
    case .flag(let flag): hasher.combine(flag)
    }
  }
}
