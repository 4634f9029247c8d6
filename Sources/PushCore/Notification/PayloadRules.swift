/// What Apple demands of a payload, by push type. Only musts are here: a rule that Apple does not state is none of
/// ours.
enum PayloadRules {
  /// A rule that is not kept: the path at fault, and the rule.
  struct Violation {
    var path: String
    var rule: String
    /// Offset of the value to show; nil where the rule says all.
    var offset: Int?
  }

  /// The first rule that the payload breaks, or nil.
  /// - Parameters:
  ///   - isWallet: the topic is a pass type id: Wallet wants an empty `aps`.
  ///   - isBroadcast: the job goes to a channel.
  static func violation(
    _ facts: PayloadFacts, _ rules: PushTypeRules.Payload, isWallet: Bool, isBroadcast: Bool
  ) -> Violation? {
    switch rules {
    case .free: nil
    case .alert: common(facts) ?? (isWallet ? nil : alert(facts))
    case .background: common(facts) ?? background(facts)
    case .location: common(facts)
    case .contentChanged: common(facts) ?? contentChanged(facts)
    case .liveActivity: liveActivity(facts, isBroadcast: isBroadcast)
    case .mdm: mdm(facts)
    case .fileProvider: fileProvider(facts)
    }
  }

  /// Every type whose `aps` the system reads.
  private static func common(_ facts: PayloadFacts) -> Violation? {
    if let fault = facts.fault { return shape(fault) }
    if let offset = facts.relevanceScoreOutside {
      return Violation(path: "payload.aps.relevance-score", rule: "must be a number from 0 to 1", offset: offset)
    }
    for (key, _, _) in localised where facts.textObjects.contains(key) {
      return Violation(path: key.path, rule: "must be a string: only a Live Activity takes an object here")
    }
    return localisation(facts)
  }

  /// `…loc-key` stands in place of its plain key, and `…loc-args` need their key.
  private static func localisation(_ facts: PayloadFacts) -> Violation? {
    guard facts.alert == .object else { return nil }
    for (plain, key, arguments) in localised {
      if facts.keys.contains(key) && facts.keys.contains(plain) {
        return Violation(path: key.path, rule: "must not stand beside \(plain.row.name), which it replaces")
      }
      if facts.keys.contains(arguments) && !facts.keys.contains(key) {
        return Violation(path: arguments.path, rule: "needs \(key.row.name)")
      }
    }
    return nil
  }

  private static let localised: [(plain: PayloadKey, key: PayloadKey, arguments: PayloadKey)] = [
    (.title, .titleLocKey, .titleLocArgs), (.subtitle, .subtitleLocKey, .subtitleLocArgs), (.body, .locKey, .locArgs),
  ]

  private static func alert(_ facts: PayloadFacts) -> Violation? {
    let hasBadgeOrSound = facts.keys.contains(.badge) || facts.keys.contains(.sound)
    if facts.alert == .emptyObject && hasBadgeOrSound {
      return Violation(path: "payload.aps.alert", rule: "must not be an empty object beside badge or sound")
    }
    guard facts.alert != .absent || hasBadgeOrSound else {
      return Violation(path: "payload.aps", rule: "must have at least one of alert, badge and sound for an alert push")
    }
    return nil
  }

  /// What people would notice.
  private static let visible: [PayloadKey] = [.alert, .badge, .sound]

  private static func background(_ facts: PayloadFacts) -> Violation? {
    guard facts.isContentAvailableOne else {
      return Violation(path: "payload.aps.content-available", rule: "must be 1 for a background push")
    }
    for key in visible where facts.keys.contains(key) {
      return Violation(path: key.path, rule: "must not be in a background push")
    }
    return nil
  }

  private static func contentChanged(_ facts: PayloadFacts) -> Violation? {
    guard facts.isContentChangedTrue else {
      return Violation(path: "payload.aps.content-changed", rule: "must be true for a push to widgets or controls")
    }
    return nil
  }

  private static func mdm(_ facts: PayloadFacts) -> Violation? {
    guard facts.filledStrings.contains(.mdm) else {
      return Violation(path: "payload.mdm", rule: "must be the device's PushMagic, a string")
    }
    guard facts.rootKeyCount == 1 else {
      return Violation(path: "payload", rule: "must hold mdm and nothing else for an MDM push")
    }
    return nil
  }

  private static func fileProvider(_ facts: PayloadFacts) -> Violation? {
    guard facts.filledStrings.contains(.containerIdentifier) else {
      return Violation(path: "payload.container-identifier", rule: "must be a string for a push to a file provider")
    }
    return nil
  }

  private static let startOnly: [PayloadKey] = [.inputPushToken, .inputPushChannel]
  private static let startNeeds: [PayloadKey] = [.attributesType, .attributes]

  private static func liveActivity(_ facts: PayloadFacts, isBroadcast: Bool) -> Violation? {
    if let fault = facts.liveActivityFault ?? facts.fault { return shape(fault) }
    let keys = facts.keys
    guard keys.contains(.timestamp) else {
      return Violation(path: "payload.aps.timestamp", rule: "must be Unix seconds for a Live Activity")
    }
    guard let event = facts.event else {
      return Violation(path: "payload.aps.event", rule: "must be start, update or end for a Live Activity")
    }
    if event != .end && !keys.contains(.contentState) {
      return Violation(path: "payload.aps.content-state", rule: "must be an object for start and update")
    }
    if event != .end && keys.contains(.dismissalDate) {
      return Violation(path: "payload.aps.dismissal-date", rule: "goes with end only")
    }
    guard event == .start else {
      for key in startOnly where keys.contains(key) {
        return Violation(path: key.path, rule: "goes with start only")
      }
      return localisation(facts)
    }
    return start(facts, isBroadcast: isBroadcast) ?? localisation(facts)
  }

  private static func start(_ facts: PayloadFacts, isBroadcast: Bool) -> Violation? {
    let keys = facts.keys
    if isBroadcast {
      return Violation(path: "payload.aps.event", rule: "must be update or end: a broadcast cannot start an activity")
    }
    for key in startNeeds where !keys.contains(key) {
      return Violation(path: key.path, rule: "must be there to start a Live Activity")
    }
    guard facts.alert == .object else {
      return Violation(
        path: "payload.aps.alert", rule: "must be an object with title and body to start a Live Activity")
    }
    for (text, key, _) in localised where text != .subtitle && !keys.contains(text) && !keys.contains(key) {
      return Violation(path: text.path, rule: "must be there to start a Live Activity")
    }
    if keys.contains(.inputPushToken) && keys.contains(.inputPushChannel) {
      return Violation(path: "payload.aps.input-push-channel", rule: "must not stand beside input-push-token")
    }
    return nil
  }

  private static func shape(_ fault: PayloadFacts.Fault) -> Violation {
    let path = fault.key.level.isNested ? fault.parent.map { "\($0.path).\(fault.key.row.name)" } : nil
    return Violation(path: path ?? fault.key.path, rule: fault.key.shape.rule, offset: fault.offset)
  }
}
