import PushCore

/// A segment's filter, in JSON or in the text form, from whoever may write one.
final class SegmentFilterSubject: FuzzSubject {
  init() {}

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    let filter: SegmentFilter
    do throws(SegmentFilterError) {
      filter = try SegmentFilterParser.parse(bytes)
    } catch {
      let text = error.description
      try holds(text.utf8.count <= 1024, "a refusal is bounded: \(text.utf8.count) bytes")
      if case .byte(let offset) = error.place {
        try holds(0...bytes.count ~= offset, "a place lies within the bytes: \(offset) of \(bytes.count)")
      }
      return
    }
    try holds(filter.depth <= SegmentLimits.depthMaximum, "depth \(filter.depth)")
    try holds(filter.conditionCount <= SegmentLimits.conditionsMaximum, "\(filter.conditionCount) conditions")
    let json = filter.json
    try holds((try? SegmentFilterParser.parse(json)) == filter, "a filter survives its JSON: \(filter)")
  }
}
