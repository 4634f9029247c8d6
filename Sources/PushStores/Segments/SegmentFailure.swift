package import PushCore

/// Why an audience could not be determined.
package enum SegmentFailure: Error, Hashable, Sendable, CustomStringConvertible {
  /// Redis did not answer, or refused: a retry may succeed.
  case redis(String)
  /// The filter cannot be evaluated: it names a missing segment, or contains itself.
  case filter(FilterPlanError)
  /// What Redis holds is not what is asked for: asking again gives the same.
  case unreadable(String)
  /// A key holds a value that the registry did not write.
  case foreign(key: String)

  package var description: String {
    switch self {
    case .redis(let text), .unreadable(let text): "redis: \(text)"
    case .filter(let error): "the filter \(error)"
    case .foreign(let key):
      "redis: \(key) holds a value that the registry did not write: does something else use this key?"
    }
  }
}

package typealias SegmentThen<Value> = (Result<Value, SegmentFailure>) -> Void
