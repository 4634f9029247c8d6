/// `apns-push-type`. Source: Apple, "Sending notification requests to APNs".
package enum PushType: UInt8, CaseIterable, Sendable {
  case alert, background, location, voip, complication, fileprovider, mdm, liveactivity, pushtotalk, widgets, controls,
    accessory
  /// A type that this version does not know: sent unchanged, and only with the job's own topic.
  case other

  /// The word on the wire; empty for `other`, whose word the job carries.
  package var name: String {
    switch self {
    case .alert: "alert"
    case .background: "background"
    case .location: "location"
    case .voip: "voip"
    case .complication: "complication"
    case .fileprovider: "fileprovider"
    case .mdm: "mdm"
    case .liveactivity: "liveactivity"
    case .pushtotalk: "pushtotalk"
    case .widgets: "widgets"
    case .controls: "controls"
    case .accessory: "accessory"
    case .other: ""
    }
  }

  /// The types that have a name, in the order of their raw values.
  package static let named: [PushType] = allCases.dropLast()

  /// The type's rules for a job.
  package var rules: PushTypeRules { PushTypeRules.table[Int(rawValue)] }

  /// Of the rules, without a copy of them.
  package var topicSuffix: String { PushTypeRules.table[Int(rawValue)].topicSuffix }
}
