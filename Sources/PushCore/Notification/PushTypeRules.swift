/// The rules of a push type: one row for each type. Sources: Apple, "Sending notification requests to APNs" and
/// the pages of each kind of push; of accessories "Responding to forwarded notifications".
package struct PushTypeRules: Sendable {
  /// Which credentials may send the type.
  package enum Credential: Sendable {
    case any, tokenOnly, certificateOnly
  }

  /// Which payload rules apply; see `PayloadRule.table`.
  enum Payload: UInt8, CaseIterable, Sendable {
    case alert, background, liveActivity, contentChanged, mdm, fileProvider, accessory
    /// `aps` may be empty, and its keys follow the common rules.
    case location
    /// The app's own keys at the root: nothing to check.
    case free
  }

  /// Appended to the app to make the topic.
  package var topicSuffix: String
  /// Allowed values of `apns-priority`, highest first.
  package var priorities: [UInt8]
  /// The default priority; nil: no header, which APNs takes as 10.
  package var priorityDefault: UInt8?
  /// Longest payload in bytes.
  package var payloadBytesMaximum: Int
  package var credential: Credential
  /// The only expiration that the type takes, and its default.
  package var expirationOnly: Int64?
  /// False: each push counts, so none may replace another.
  package var takesCollapseID: Bool
  /// False: the token is none that an app registers, so the registry does not know it.
  package var takesAudience: Bool
  var payload: Payload

  private init(
    topicSuffix: String = "", priorities: [UInt8] = anyPriority, priorityDefault: UInt8? = nil,
    payloadBytesMaximum: Int = 4096, credential: Credential = .any, expirationOnly: Int64? = nil,
    takesCollapseID: Bool = true, takesAudience: Bool = true, payload: Payload
  ) {
    self.topicSuffix = topicSuffix
    self.priorities = priorities
    self.priorityDefault = priorityDefault
    self.payloadBytesMaximum = payloadBytesMaximum
    self.credential = credential
    self.expirationOnly = expirationOnly
    self.takesCollapseID = takesCollapseID
    self.takesAudience = takesAudience
    self.payload = payload
  }

  private static let anyPriority: [UInt8] = [10, 5, 1]

  /// Longest payload of a broadcast to a channel, in bytes.
  package static let broadcastPayloadBytesMaximum = 5120

  /// A row for each push type, indexed by its raw value.
  package static let table: [PushTypeRules] = PushType.allCases.map { type in
    switch type {
    case .alert: PushTypeRules(payload: .alert)
    case .background: PushTypeRules(priorities: [5], priorityDefault: 5, payload: .background)
    case .location:
      PushTypeRules(
        topicSuffix: ".location-query", priorities: [10, 5], credential: .tokenOnly, payload: .location)
    case .voip: PushTypeRules(topicSuffix: ".voip", payloadBytesMaximum: 5120, payload: .free)
    case .complication: PushTypeRules(topicSuffix: ".complication", payload: .free)
    case .fileprovider:
      PushTypeRules(topicSuffix: ".pushkit.fileprovider", credential: .tokenOnly, payload: .fileProvider)
    case .mdm: PushTypeRules(credential: .certificateOnly, payload: .mdm)
    case .liveactivity:
      PushTypeRules(
        topicSuffix: ".push-type.liveactivity", priorities: [10, 5], credential: .tokenOnly, payload: .liveActivity)
    case .pushtotalk:
      PushTypeRules(topicSuffix: ".voip-ptt", priorities: [10], expirationOnly: 0, payload: .free)
    case .widgets: PushTypeRules(topicSuffix: ".push-type.widgets", payload: .contentChanged)
    case .controls: PushTypeRules(topicSuffix: ".push-type.controls", payload: .contentChanged)
    case .accessory:
      PushTypeRules(
        topicSuffix: ".push-type.accessory", credential: .tokenOnly, takesCollapseID: false, takesAudience: false,
        payload: .accessory)
    case .other: PushTypeRules(payload: .free)
    }
  }
}
