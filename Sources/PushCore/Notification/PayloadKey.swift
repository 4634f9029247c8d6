/// The payload keys that Apple defines, each with its place and the shape of its value. Any other key
/// passes unchecked: APNs gets new keys faster than senders are updated.
enum PayloadKey: UInt8, CaseIterable, Sendable {
  // In `payload`.
  case aps, mdm, containerIdentifier
  // In `payload.aps`.
  case alert, badge, sound, threadID, category, contentAvailable, mutableContent, targetContentID, interruptionLevel,
    relevanceScore, filterCriteria, contentChanged, urlArgs, timestamp, event, contentState, attributesType,
    attributes, staleDate, dismissalDate, inputPushToken, inputPushChannel, encryptedData, sessionIdentifier, keyID,
    messageIndex
  // In `payload.aps.alert`.
  case title, subtitle, body, launchImage, titleLocKey, titleLocArgs, subtitleLocKey, subtitleLocArgs, locKey,
    locArgs, alertSound
  // In `payload.aps.alert.title` and `…body`, `…subtitle`, where they are objects.
  case textLocKey, textLocArgs
  // In `payload.aps.sound` and `payload.aps.alert.sound`.
  case critical, soundName, volume

  /// The objects whose keys are checked.
  enum Level: UInt8, CaseIterable, Sendable {
    case root, aps, alert, text, sound

    /// The keys of this level, in the order of their raw values.
    var keys: [PayloadKey] { PayloadKey.allCases.filter { $0.level == self } }

    /// Objects of this level occur under more than one key.
    var isNested: Bool { self == .text || self == .sound }
  }

  /// The shape of a value.
  enum Shape: Sendable {
    case anything, string, strings, object, number
    /// A string that is not empty.
    case filled
    /// A string of base64 (RFC 4648, section 4) that is not empty, with its padding.
    case base64
    /// A string of decimal digits.
    case digits
    /// The object of `aps`.
    case aps
    /// A string, or the object of an alert.
    case alert
    /// A string, or in a Live Activity an object with a localised text.
    case text
    /// A string, or the object of a sound.
    case sound
    /// An integer that is not negative.
    case count
    /// Unix seconds.
    case seconds
    /// Unix seconds, with or without a fraction.
    case date
    /// 0, 1, true or false.
    case flag
    /// true or false.
    case boolean
    /// The number 1.
    case one
    /// A number from 0 to 1.
    case unit
    case interruptionLevel
    case event

    /// The rule in words.
    var rule: String {
      switch self {
      case .anything: ""
      case .string: "must be a string"
      case .filled: "must be a string that is not empty"
      case .base64: "must be base64 with + and /, padded"
      case .digits: "must be a string of decimal digits"
      case .strings: "must be an array of strings"
      case .object, .aps: "must be an object"
      case .number: "must be a number"
      case .alert, .text, .sound: "must be a string or an object"
      case .count: "must be an integer that is not negative"
      case .seconds: "must be Unix seconds, an integer of at most 11 digits"
      case .date: "must be Unix seconds, a number of at most 11 digits"
      case .flag: "must be 1 or 0, true or false"
      case .boolean: "must be true or false"
      case .one: "must be 1"
      case .unit: "must be a number from 0 to 1"
      case .interruptionLevel: "must be passive, active, time-sensitive or critical"
      case .event: "must be start, update or end"
      }
    }
  }

  /// The key as written, its level, and its value's shape.
  var row: (name: String, level: Level, shape: Shape) {
    switch self {
    case .aps: ("aps", .root, .aps)
    case .mdm: ("mdm", .root, .anything)
    case .containerIdentifier: ("container-identifier", .root, .anything)
    case .alert: ("alert", .aps, .alert)
    case .badge: ("badge", .aps, .count)
    case .sound: ("sound", .aps, .sound)
    case .threadID: ("thread-id", .aps, .string)
    case .category: ("category", .aps, .string)
    case .contentAvailable: ("content-available", .aps, .flag)
    case .mutableContent: ("mutable-content", .aps, .flag)
    case .targetContentID: ("target-content-id", .aps, .string)
    case .interruptionLevel: ("interruption-level", .aps, .interruptionLevel)
    case .relevanceScore: ("relevance-score", .aps, .number)
    case .filterCriteria: ("filter-criteria", .aps, .string)
    case .contentChanged: ("content-changed", .aps, .boolean)
    case .urlArgs: ("url-args", .aps, .strings)
    case .timestamp: ("timestamp", .aps, .seconds)
    case .event: ("event", .aps, .event)
    case .contentState: ("content-state", .aps, .object)
    case .attributesType: ("attributes-type", .aps, .string)
    case .attributes: ("attributes", .aps, .object)
    case .staleDate: ("stale-date", .aps, .date)
    case .dismissalDate: ("dismissal-date", .aps, .date)
    case .inputPushToken: ("input-push-token", .aps, .one)
    case .inputPushChannel: ("input-push-channel", .aps, .string)
    case .encryptedData: ("encryptedData", .aps, .base64)
    case .sessionIdentifier: ("sessionIdentifier", .aps, .filled)
    case .keyID: ("keyID", .aps, .base64)
    case .messageIndex: ("messageIndex", .aps, .digits)
    case .title: ("title", .alert, .text)
    case .subtitle: ("subtitle", .alert, .text)
    case .body: ("body", .alert, .text)
    case .launchImage: ("launch-image", .alert, .string)
    case .titleLocKey: ("title-loc-key", .alert, .string)
    case .titleLocArgs: ("title-loc-args", .alert, .strings)
    case .subtitleLocKey: ("subtitle-loc-key", .alert, .string)
    case .subtitleLocArgs: ("subtitle-loc-args", .alert, .strings)
    case .locKey: ("loc-key", .alert, .string)
    case .locArgs: ("loc-args", .alert, .strings)
    case .alertSound: ("sound", .alert, .sound)
    case .textLocKey: ("loc-key", .text, .string)
    case .textLocArgs: ("loc-args", .text, .strings)
    case .critical: ("critical", .sound, .flag)
    case .soundName: ("name", .sound, .string)
    case .volume: ("volume", .sound, .unit)
    }
  }

  var level: Level { row.level }

  var shape: Shape { row.shape }

  /// The key has a meaning only in Live Activities: elsewhere it belongs to the app.
  var isOfLiveActivities: Bool {
    PayloadKey.timestamp.rawValue <= rawValue && rawValue <= PayloadKey.inputPushChannel.rawValue
      || level == .text || self == .alertSound
  }

  /// The key has a meaning only in the answers of accessories: elsewhere it belongs to the app.
  var isOfAccessories: Bool {
    PayloadKey.encryptedData.rawValue <= rawValue && rawValue <= PayloadKey.messageIndex.rawValue
  }

  /// The path, for people.
  var path: String {
    switch level {
    case .root: "payload.\(row.name)"
    case .aps: "payload.aps.\(row.name)"
    case .alert: "payload.aps.alert.\(row.name)"
    case .text: "payload.aps.alert.….\(row.name)"
    case .sound: "payload.aps.sound.\(row.name)"
    }
  }
}

/// A set of payload keys: a bit for each.
struct PayloadKeySet: Hashable, Sendable, ExpressibleByArrayLiteral {
  private(set) var bits: UInt64 = 0

  init(arrayLiteral keys: PayloadKey...) {
    for key in keys { insert(key) }
  }

  @inline(__always)
  mutating func insert(_ key: PayloadKey) {
    bits |= 1 << UInt64(key.rawValue)
  }

  @inline(__always)
  func contains(_ key: PayloadKey) -> Bool {
    bits & 1 << UInt64(key.rawValue) != 0
  }
}
