package import PushCore

/// Why an audience could not be told.
package enum SegmentFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// Redis did not answer, or refused: what is asked again later may succeed.
  case redis(String)
  /// The filter itself cannot be evaluated: it names a segment that is not there, or leads back to itself.
  case filter(FilterPlanError)
  /// A key holds something that the registry does not write.
  case foreign(key: String)

  package var description: String {
    switch self {
    case .redis(let text): "redis: \(text)"
    case .filter(let error): "the filter \(error)"
    case .foreign(let key):
      "redis: \(key) holds something else than the registry writes: does something else use this key?"
    }
  }
}

package typealias SegmentThen<Value> = (Result<Value, SegmentFailure>) -> Void
