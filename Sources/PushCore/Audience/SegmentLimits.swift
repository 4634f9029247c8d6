/// Bounds of a segment's filter. With them a filter is evaluated in bounded memory.
package enum SegmentLimits {
  /// Levels of one filter.
  package static let depthMaximum = 8
  /// Conditions of one filter.
  package static let conditionsMaximum = 64
  /// Values of one `in`.
  package static let valuesMaximum = 64
  /// A filter's JSON, as given and as stored.
  package static let bytesMaximum = 64 * 1024
  package static let seenDaysMaximum: Int32 = 1000
  /// Segments within segments: so many filters lie in each other at most.
  package static let nestingMaximum = 8
  /// Conditions of a filter, with those of the segments that it names.
  package static let allConditionsMaximum = 256
}
