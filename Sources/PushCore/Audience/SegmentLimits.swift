/// Limits of a segment's filter. They bound the memory of its evaluation.
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
  /// Maximum depth of segments within segments.
  package static let nestingMaximum = 8
  /// Conditions of a filter, including those of the segments that it names.
  package static let allConditionsMaximum = 256
}
