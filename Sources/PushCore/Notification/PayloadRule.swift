/// One of Apple's rules for payloads: its kinds of push, when it is broken, the error's text, and the answer that
/// APNs would give.
package struct PayloadRule: Sendable {
  let kinds: [PushTypeRules.Payload]
  /// Broken where all of these hold …
  let with: PayloadTraits
  /// … and none of these.
  let without: PayloadTraits
  /// The key at fault, as in `payload.aps.alert.title`.
  package let path: String
  package let text: String
  /// The text continues with the value seen, or says that it is missing.
  let showsValue: Bool
  package let answer: RuleAnswer

  init(
    _ kinds: [PushTypeRules.Payload], _ path: String, _ text: String, with: PayloadTraits = [],
    without: PayloadTraits = [], showsValue: Bool = true, _ answer: RuleAnswer = .refuses(.badRequestPayload)
  ) {
    self.kinds = kinds
    self.path = path
    self.text = text
    self.with = with
    self.without = without
    self.showsValue = showsValue
    self.answer = answer
  }

  /// Kinds whose `aps` describes a notification.
  private static let visible: [PushTypeRules.Payload] = [.alert, .background, .location, .contentChanged]
  /// Kinds with texts that can be localised.
  private static let texts = visible + [.liveActivity]

  /// Every rule, in the order of checking: the first broken one is reported. Sources: Apple, "Generating a
  /// remote notification", "Pushing background updates to your App", "Starting and updating Live Activities with
  /// ActivityKit push notifications", "Updating widgets with WidgetKit push notifications", "Wallet Passes", "MDM",
  /// "Responding to forwarded notifications".
  /// `PayloadKey` has the shapes of single values.
  package static let table: [PayloadRule] = [
    // Nothing to deliver.
    PayloadRule(
      [.background, .contentChanged, .mdm, .fileProvider, .liveActivity, .accessory], "payload",
      "must not be an empty object", with: .isEmpty, showsValue: false, .refuses(.payloadEmpty)),
    PayloadRule(
      [.liveActivity], "payload.aps", "must be an object with timestamp and event for a Live Activity",
      without: .has(.aps), .refuses(.payloadEmpty)),
    PayloadRule(
      [.alert], "payload.aps", "must have at least one of alert, badge and sound for an alert push",
      without: [.has(.alert), .has(.badge), .has(.sound), .isWallet], showsValue: false, .refuses(.payloadEmpty)),

    // Texts: a localisation key replaces the plain text, and arguments need their key.
    PayloadRule(
      visible, "payload.aps.relevance-score", "must be a number from 0 to 1", with: .relevanceIsOutside),
    PayloadRule(
      visible, "payload.aps.alert.title", "must be a string: only a Live Activity takes an object here",
      with: .titleIsObject, showsValue: false, .takes),
    PayloadRule(
      visible, "payload.aps.alert.subtitle", "must be a string: only a Live Activity takes an object here",
      with: .subtitleIsObject, showsValue: false, .takes),
    PayloadRule(
      visible, "payload.aps.alert.body", "must be a string: only a Live Activity takes an object here",
      with: .bodyIsObject, showsValue: false, .takes),
    PayloadRule(
      texts, "payload.aps.alert.title", "stands beside title-loc-key; use one",
      with: [.has(.title), .has(.titleLocKey)]),
    PayloadRule(
      texts, "payload.aps.alert.subtitle", "stands beside subtitle-loc-key; use one",
      with: [.has(.subtitle), .has(.subtitleLocKey)]),
    PayloadRule(
      texts, "payload.aps.alert.body", "stands beside loc-key; use one", with: [.has(.body), .has(.locKey)]),
    PayloadRule(
      texts, "payload.aps.alert.title-loc-args", "needs title-loc-key", with: .has(.titleLocArgs),
      without: .has(.titleLocKey), showsValue: false),
    PayloadRule(
      texts, "payload.aps.alert.subtitle-loc-args", "needs subtitle-loc-key", with: .has(.subtitleLocArgs),
      without: .has(.subtitleLocKey), showsValue: false),
    PayloadRule(
      texts, "payload.aps.alert.loc-args", "needs loc-key", with: .has(.locArgs), without: .has(.locKey),
      showsValue: false),

    // Alerts.
    PayloadRule(
      [.alert], "payload.aps.alert", "must not be an empty object beside badge",
      with: [.alertIsEmptyObject, .has(.badge)], showsValue: false),
    PayloadRule(
      [.alert], "payload.aps.alert", "must not be an empty object beside sound",
      with: [.alertIsEmptyObject, .has(.sound)], showsValue: false),

    // Background pushes are unseen.
    PayloadRule(
      [.background], "payload.aps.content-available", "must be 1 for a background push",
      without: .contentAvailableIsOne),
    PayloadRule(
      [.background], "payload.aps.alert", "must not be in a background push", with: .has(.alert), showsValue: false),
    PayloadRule(
      [.background], "payload.aps.badge", "must not be in a background push", with: .has(.badge), showsValue: false),
    PayloadRule(
      [.background], "payload.aps.sound", "must not be in a background push", with: .has(.sound), showsValue: false),

    // Widgets and controls, MDM, file providers, accessories.
    PayloadRule(
      [.contentChanged], "payload.aps.content-changed", "must be true for a push to widgets or controls",
      without: .contentChangedIsTrue),
    PayloadRule(
      [.mdm], "payload.mdm", "must be the device's PushMagic, a string that is not empty", without: .mdmIsFilled),
    PayloadRule(
      [.mdm], "payload", "must hold mdm and nothing else for an MDM push", with: .hasSeveralRootKeys,
      showsValue: false),
    PayloadRule(
      [.fileProvider], "payload.container-identifier", "must be a string that is not empty for a file provider",
      without: .containerIsFilled),
    PayloadRule(
      [.accessory], "payload.aps.encryptedData", "must be an accessory's encrypted response in base64",
      without: .has(.encryptedData)),
    PayloadRule(
      [.accessory], "payload.aps.sessionIdentifier", "must be the id of the accessory's session, a string",
      without: .has(.sessionIdentifier)),
    PayloadRule(
      [.accessory], "payload.aps.keyID", "must be the id of the ratchet's key in base64", without: .has(.keyID)),
    PayloadRule(
      [.accessory], "payload.aps.messageIndex", "must be the ratchet's message index, a string of decimal digits",
      without: .has(.messageIndex)),

    // Live Activities.
    PayloadRule(
      [.liveActivity], "payload.aps.timestamp", "must be Unix seconds for a Live Activity",
      without: [.has(.timestamp), .isOfActivity]),
    PayloadRule(
      [.liveActivity], "payload.aps.event", "must be start, update or end for a Live Activity",
      without: [.isStart, .isUpdate, .isEnd]),
    PayloadRule(
      [.liveActivity], "payload.aps.event", "must be update or end: a broadcast cannot start an activity",
      with: [.isStart, .isBroadcast]),
    PayloadRule(
      [.liveActivity], "payload.aps.content-state", "must be an object for start and update",
      without: [.isEnd, .has(.contentState)]),
    PayloadRule(
      [.liveActivity], "payload.aps.dismissal-date", "goes with end only", with: .has(.dismissalDate),
      without: .isEnd, showsValue: false),
    PayloadRule(
      [.liveActivity], "payload.aps.stale-date", "goes with start and update only", with: [.has(.staleDate), .isEnd],
      showsValue: false),
    PayloadRule(
      [.liveActivity], "payload.aps.input-push-token", "goes with start only", with: .has(.inputPushToken),
      without: .isStart, showsValue: false),
    PayloadRule(
      [.liveActivity], "payload.aps.input-push-channel", "goes with start only", with: .has(.inputPushChannel),
      without: .isStart, showsValue: false),
    PayloadRule(
      [.liveActivity], "payload.aps.attributes-type", "must be a string to start a Live Activity", with: .isStart,
      without: .has(.attributesType)),
    PayloadRule(
      [.liveActivity], "payload.aps.attributes", "must be an object to start a Live Activity", with: .isStart,
      without: .has(.attributes)),
    PayloadRule(
      [.liveActivity], "payload.aps.alert", "must be an object with title and body to start a Live Activity",
      with: .isStart, without: .alertIsObject),
    PayloadRule(
      [.liveActivity], "payload.aps.alert.title", "must be there to start a Live Activity", with: .isStart,
      without: [.has(.title), .has(.titleLocKey)]),
    PayloadRule(
      [.liveActivity], "payload.aps.alert.body", "must be there to start a Live Activity", with: .isStart,
      without: [.has(.body), .has(.locKey)]),
    PayloadRule(
      [.liveActivity], "payload.aps.input-push-channel", "stands beside input-push-token; use one",
      with: [.has(.inputPushChannel), .has(.inputPushToken)]),
  ]
}
