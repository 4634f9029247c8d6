/// APNs' requirements for each push type: one row of Apple's table. Written from the documents, not from Herald's own table, so that both
/// do not share a mistake.
package struct PushTypeRule: Sendable {
  package enum CredentialKind: Sendable {
    case any, tokenOnly, certificateOnly
  }

  package let name: String
  /// The topic's suffix; empty: the topic is the app itself.
  package let topicSuffix: String
  /// The allowed values of `apns-priority`; a missing header counts as 10.
  package let priorities: [Int]
  package let credential: CredentialKind
  package let payloadBytesMaximum: Int
  /// `apns-expiration` must be 0 if the header is present.
  package let demandsImmediateExpiration: Bool
  /// There must be no `apns-collapse-id`.
  package let forbidsCollapseID: Bool

  private init(
    _ name: String, _ topicSuffix: String, _ priorities: [Int], _ credential: CredentialKind = .any,
    payloadBytesMaximum: Int = PushTypeRule.payloadBytesMaximum, demandsImmediateExpiration: Bool = false,
    forbidsCollapseID: Bool = false
  ) {
    self.name = name
    self.topicSuffix = topicSuffix
    self.priorities = priorities
    self.credential = credential
    self.payloadBytesMaximum = payloadBytesMaximum
    self.demandsImmediateExpiration = demandsImmediateExpiration
    self.forbidsCollapseID = forbidsCollapseID
  }

  package static let payloadBytesMaximum = 4096
  package static let largePayloadBytesMaximum = 5120
  package static let priorities = [10, 5, 1]

  package static let all: [PushTypeRule] = [
    PushTypeRule("alert", "", priorities),
    PushTypeRule("background", "", [5]),
    PushTypeRule("voip", ".voip", priorities, payloadBytesMaximum: largePayloadBytesMaximum),
    PushTypeRule("complication", ".complication", priorities),
    PushTypeRule("fileprovider", ".pushkit.fileprovider", priorities, .tokenOnly),
    PushTypeRule("location", ".location-query", [10, 5], .tokenOnly),
    PushTypeRule("mdm", "", priorities, .certificateOnly),
    PushTypeRule("liveactivity", ".push-type.liveactivity", [10, 5], .tokenOnly),
    PushTypeRule("pushtotalk", ".voip-ptt", [10], demandsImmediateExpiration: true),
    PushTypeRule("widgets", ".push-type.widgets", priorities),
    PushTypeRule("controls", ".push-type.controls", priorities),
    PushTypeRule("accessory", ".push-type.accessory", priorities, .tokenOnly, forbidsCollapseID: true),
  ]

  package static let byName: [String: PushTypeRule] = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

  /// Every suffix that makes another topic of an app's bundle id.
  static let suffixes = all.map(\.topicSuffix).filter { !$0.isEmpty }

  /// Whether this topic belongs to this push type.
  func takes(topic: String) -> Bool {
    if topicSuffix.isEmpty { return !PushTypeRule.suffixes.contains { topic.hasSuffix($0) } }
    return topic.hasSuffix(topicSuffix) && topic.utf8.count > topicSuffix.utf8.count
  }

  func takes(priority: Int?) -> Bool {
    priorities.contains(priority ?? 10)
  }
}
