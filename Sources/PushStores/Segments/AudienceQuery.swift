package import PushCore

/// The definition of an audience.
package enum AudienceQuery: Hashable, Sendable {
  case filter(SegmentFilter)
  case segment(SegmentCode)
  /// Devices in at least one of these sets.
  case sets([DeviceSet])

  /// Users by their ids.
  package static func users(_ ids: [String]) -> AudienceQuery { .sets(ids.map(DeviceSet.user)) }

  /// Devices by their ids or alert tokens.
  package static func devices(_ names: [String]) -> AudienceQuery {
    .sets(names.flatMap(DeviceSet.sets(ofDevice:)))
  }

  var filter: SegmentFilter? {
    switch self {
    case .filter(let filter): filter
    case .segment(let code): .leaf(.segment(code))
    case .sets: nil
    }
  }
}
