/// Why the segments that a filter names cannot be put in its place.
package enum FilterPlanError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The way from the filter to the segment that is not there: the segments that name it, it as the last.
  case unknownSegment([SegmentCode])
  /// The way to a segment that is its own part, twice on it.
  case circle([SegmentCode])
  /// Segments lie deeper in each other than `SegmentLimits.nestingMaximum`.
  case tooDeep([SegmentCode])
  /// The filter has more conditions than `SegmentLimits.allConditionsMaximum` in all.
  case tooManyConditions([SegmentCode])

  /// The way to what is wrong; its first is named by the filter itself.
  package var way: [SegmentCode] {
    switch self {
    case .unknownSegment(let way), .circle(let way), .tooDeep(let way), .tooManyConditions(let way): way
    }
  }

  /// In words that stand behind the place where the first of the way is named.
  package var description: String {
    let through = way.count > 1 ? " (\(way.map(\.text).joined(separator: " → ")))" : ""
    let last = way.last.map { " \($0)" } ?? ""
    return switch self {
    case .unknownSegment: "names the segment\(last), which there is not\(through)"
    case .circle: "leads back to the segment\(last)\(through)"
    case .tooDeep:
      "leads through more than \(SegmentLimits.nestingMaximum) segments that lie in each other\(through)"
    case .tooManyConditions:
      "makes more than \(SegmentLimits.allConditionsMaximum) conditions, those of its segments included\(through)"
    }
  }
}

/// Puts filters in the place of segments that are named.
struct FilterResolution {
  private let segments: [SegmentCode: SegmentFilter]
  private var conditionCount = 0

  static func resolve(
    _ filter: SegmentFilter, segments: [SegmentCode: SegmentFilter]
  ) throws(FilterPlanError) -> SegmentFilter {
    var resolution = FilterResolution(segments: segments)
    return try resolution.resolved(filter, way: [])
  }

  private init(segments: [SegmentCode: SegmentFilter]) { self.segments = segments }

  private mutating func resolved(
    _ filter: SegmentFilter, way: [SegmentCode]
  ) throws(FilterPlanError) -> SegmentFilter {
    switch filter {
    case .all(let filters):
      var parts: [SegmentFilter] = []
      for filter in filters { parts.append(try resolved(filter, way: way)) }
      return .all(parts)
    case .any(let filters):
      var parts: [SegmentFilter] = []
      for filter in filters { parts.append(try resolved(filter, way: way)) }
      return .any(parts)
    case .not(let filter):
      return .not(try resolved(filter, way: way))
    case .leaf(.segment(let code)):
      let next = way + [code]
      guard !way.contains(code) else { throw .circle(next) }
      guard next.count <= SegmentLimits.nestingMaximum else { throw .tooDeep(next) }
      guard let filter = segments[code] else { throw .unknownSegment(next) }
      return try resolved(filter, way: next)
    case .leaf:
      conditionCount += 1
      guard conditionCount <= SegmentLimits.allConditionsMaximum else { throw .tooManyConditions(way) }
      return filter
    }
  }
}
