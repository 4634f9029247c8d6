/// Facts about a payload: a bit for each key that is present, and for each other fact that rules use. A rule is a pair of such
/// sets, so checking it takes two instructions.
struct PayloadTraits: OptionSet, Sendable {
  let rawValue: UInt64

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// The key is present and not null.
  static func has(_ key: PayloadKey) -> PayloadTraits { PayloadTraits(rawValue: 1 << UInt64(key.rawValue)) }

  // After the keys, of which there are at most 46. All 64 bits are taken: for more keys, leave out those of texts and sounds, which no
  // rule needs.
  static let isStart = PayloadTraits(rawValue: 1 << 46)
  static let isUpdate = PayloadTraits(rawValue: 1 << 47)
  static let isEnd = PayloadTraits(rawValue: 1 << 48)
  /// The job goes to a channel.
  static let isBroadcast = PayloadTraits(rawValue: 1 << 49)
  /// The topic is a pass type id.
  static let isWallet = PayloadTraits(rawValue: 1 << 50)
  /// The payload has no key.
  static let isEmpty = PayloadTraits(rawValue: 1 << 51)
  /// The payload has more than one key at its root.
  static let hasSeveralRootKeys = PayloadTraits(rawValue: 1 << 52)
  static let alertIsObject = PayloadTraits(rawValue: 1 << 53)
  static let alertIsEmptyObject = PayloadTraits(rawValue: 1 << 54)
  static let titleIsObject = PayloadTraits(rawValue: 1 << 55)
  static let subtitleIsObject = PayloadTraits(rawValue: 1 << 56)
  static let bodyIsObject = PayloadTraits(rawValue: 1 << 57)
  static let contentAvailableIsOne = PayloadTraits(rawValue: 1 << 58)
  static let contentChangedIsTrue = PayloadTraits(rawValue: 1 << 59)
  /// `mdm` is a non-empty string.
  static let mdmIsFilled = PayloadTraits(rawValue: 1 << 60)
  /// `container-identifier` is a non-empty string.
  static let containerIsFilled = PayloadTraits(rawValue: 1 << 61)
  /// `relevance-score` is below 0 or above 1.
  static let relevanceIsOutside = PayloadTraits(rawValue: 1 << 62)

  /// The job names its activity: Herald writes the timestamp.
  static let isOfActivity = PayloadTraits(rawValue: 1 << 63)

  /// What one pass over the payload found, and where the job goes.
  init(_ facts: PayloadFacts, isWallet: Bool, isBroadcast: Bool, isOfActivity: Bool = false) {
    var traits = PayloadTraits(rawValue: facts.keys.bits)
    switch facts.event {
    case .start: traits.insert(.isStart)
    case .update: traits.insert(.isUpdate)
    case .end: traits.insert(.isEnd)
    case nil: break
    }
    switch facts.alert {
    case .absent, .string: break
    case .object: traits.insert(.alertIsObject)
    case .emptyObject: traits.insert([.alertIsObject, .alertIsEmptyObject])
    }
    if isBroadcast { traits.insert(.isBroadcast) }
    if isWallet { traits.insert(.isWallet) }
    if isOfActivity { traits.insert(.isOfActivity) }
    if facts.rootKeyCount == 0 { traits.insert(.isEmpty) }
    if facts.rootKeyCount > 1 { traits.insert(.hasSeveralRootKeys) }
    if facts.textObjects != [] {
      if facts.textObjects.contains(.title) { traits.insert(.titleIsObject) }
      if facts.textObjects.contains(.subtitle) { traits.insert(.subtitleIsObject) }
      if facts.textObjects.contains(.body) { traits.insert(.bodyIsObject) }
    }
    if facts.isContentAvailableOne { traits.insert(.contentAvailableIsOne) }
    if facts.isContentChangedTrue { traits.insert(.contentChangedIsTrue) }
    if facts.filledStrings.contains(.mdm) { traits.insert(.mdmIsFilled) }
    if facts.filledStrings.contains(.containerIdentifier) { traits.insert(.containerIsFilled) }
    if facts.relevanceScoreOutside != nil { traits.insert(.relevanceIsOutside) }
    self = traits
  }
}
