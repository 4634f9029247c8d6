/// Why the segments in a filter cannot be resolved.
package enum FilterPlanError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The path from the filter to the missing segment: the segments that name it, and it as the last.
  case unknownSegment([SegmentCode])
  /// The path to a segment that contains itself; it is in the path twice.
  case cycle([SegmentCode])
  /// Segments are nested deeper than `SegmentLimits.nestingMaximum`.
  case tooDeep([SegmentCode])
  /// The filter and its segments have more conditions than `SegmentLimits.allConditionsMaximum`.
  case tooManyConditions([SegmentCode])

  /// The path to the fault; the filter itself names its first segment.
  package var path: [SegmentCode] {
    switch self {
    case .unknownSegment(let path), .cycle(let path), .tooDeep(let path), .tooManyConditions(let path): path
    }
  }

  /// Text to follow the place where the first segment of the path is named.
  package var description: String {
    let through = path.count > 1 ? " (\(path.map(\.text).joined(separator: " → ")))" : ""
    let last = path.last.map { " \($0)" } ?? ""
    return switch self {
    case .unknownSegment: "names the segment\(last), which does not exist\(through)"
    case .cycle: "leads back to the segment\(last)\(through)"
    case .tooDeep:
      "leads through more than \(SegmentLimits.nestingMaximum) nested segments\(through)"
    case .tooManyConditions:
      "has more than \(SegmentLimits.allConditionsMaximum) conditions, including those of its segments\(through)"
    }
  }
}

/// Replaces named segments by their filters.
struct FilterResolution {
  private let segments: [SegmentCode: SegmentFilter]
  private var conditionCount = 0

  static func resolve(
    _ filter: SegmentFilter, segments: [SegmentCode: SegmentFilter]
  ) throws(FilterPlanError) -> SegmentFilter {
    var resolution = FilterResolution(segments: segments)
    return try resolution.resolved(filter, path: [])
  }

  private init(segments: [SegmentCode: SegmentFilter]) { self.segments = segments }

  private mutating func resolved(
    _ filter: SegmentFilter, path: [SegmentCode]
  ) throws(FilterPlanError) -> SegmentFilter {
    switch filter {
    case .all(let filters):
      var parts: [SegmentFilter] = []
      for filter in filters { parts.append(try resolved(filter, path: path)) }
      return .all(parts)
    case .any(let filters):
      var parts: [SegmentFilter] = []
      for filter in filters { parts.append(try resolved(filter, path: path)) }
      return .any(parts)
    case .not(let filter):
      return .not(try resolved(filter, path: path))
    case .leaf(.segment(let code)):
      let next = path + [code]
      guard !path.contains(code) else { throw .cycle(next) }
      guard next.count <= SegmentLimits.nestingMaximum else { throw .tooDeep(next) }
      guard let filter = segments[code] else { throw .unknownSegment(next) }
      return try resolved(filter, path: next)
    case .leaf:
      conditionCount += 1
      guard conditionCount <= SegmentLimits.allConditionsMaximum else { throw .tooManyConditions(path) }
      return filter
    }
  }
}
