/// Everything the registry stores about one device.
package struct DeviceRecord: Hashable, Sendable {
  package struct Token: Hashable, Sendable {
    package var bytes: [UInt8]
    /// When it was last registered, Unix milliseconds.
    package var at: Int64

    package init(bytes: [UInt8], at: Int64) {
      self.bytes = bytes
      self.at = at
    }
  }

  package struct StartToken: Hashable, Sendable {
    /// The attributes type, `*` for any.
    package var type: String
    package var token: Token

    package init(type: String, token: Token) {
      self.type = type
      self.token = token
    }
  }

  package struct Tag: Hashable, Sendable {
    package var name: String
    package var value: TagValue
    /// Of the registration that set it, Unix milliseconds; nil: it was only incremented.
    package var at: Int64?
    /// Those since then that are remembered, ascending by time. `value` includes them, if it is a number.
    package var increments: [Increment]

    package init(name: String, value: TagValue, at: Int64?, increments: [Increment] = []) {
      self.name = name
      self.value = value
      self.at = at
      self.increments = increments
    }
  }

  package struct Increment: Hashable, Sendable {
    /// Of its registration, Unix milliseconds.
    package var at: Int64
    package var addend: Double
    /// Its registration's.
    package var fingerprint: UInt32

    package init(at: Int64, addend: Double, fingerprint: UInt32) {
      self.at = at
      self.addend = addend
      self.fingerprint = fingerprint
    }
  }

  /// A tag or push-to-start token that a registration removed: one with an earlier time does not bring it back.
  package struct Removal: Hashable, Sendable {
    /// The tag's name, or the attributes type.
    package var name: String
    /// Unix milliseconds.
    package var at: Int64

    package init(name: String, at: Int64) {
      self.name = name
      self.at = at
    }
  }

  /// The times of the registrations that changed a field last, Unix milliseconds. nil: none, or it is forgotten.
  package struct Times: Hashable, Sendable {
    package var user: Int64?
    package var locale: Int64?
    package var osVersion: Int64?
    package var timeZone: Int64?
    /// That left the device without an alert token. A token has its own time.
    package var tokenRemoval: Int64?
    /// That removed all push-to-start tokens.
    package var startTokensRemoval: Int64?
    /// That removed all tags.
    package var tagsRemoval: Int64?
    /// Increments before this are no longer remembered one by one, and not added any more.
    package var increments: Int64?

    package init() {}
  }

  /// A token that APNs reported as unregistered.
  package struct GoneToken: Hashable, Sendable {
    package var fingerprint: UInt64
    /// Since when, Unix milliseconds; a registration of this token up to then is ignored.
    package var at: Int64

    package init(_ token: [UInt8], at: Int64) {
      self.init(fingerprint: GoneToken.fingerprint(of: token), at: at)
    }

    init(fingerprint: UInt64, at: Int64) {
      self.fingerprint = fingerprint
      self.at = at
    }

    package static func fingerprint(of token: [UInt8]) -> UInt64 {
      var hash = SipHash128(key0: 0x6865_7261_6C64_2067, key1: 0x6F6E_6520_2020_2020)
      hash.append(padding: token.span)
      return hash.finish().first
    }
  }

  package var id: String
  /// Random, drawn when the record is made, and never changed: tells this record from one of another device that has its
  /// ordinal later. 0: made by a version of Herald that drew none.
  package var fingerprint: UInt32 = 0
  /// The time of the newest registration, Unix milliseconds: when the device was last seen.
  package var at: Int64
  package var user: String?
  /// The alert token.
  package var token: Token?
  /// Ascending by the bytes of their types.
  package var startTokens: [StartToken] = []
  /// As registered, with hyphens.
  package var locale: String?
  package var osVersion: OSVersion?
  package var timeZone: String?
  /// Ascending by the bytes of their names.
  package var tags: [Tag] = []
  /// The newest last, at most `DeviceLimits.goneTokensMaximum`.
  package var goneTokens: [GoneToken] = []
  package var times = Times()
  /// Users that had it, ascending by time; the last is `user`. Empty: that one alone, since `times.user`.
  package var owners: [Owner] = []
  /// Ascending by the bytes of their names, at most `DeviceLimits.removalsMaximum`.
  package var removedTags: [Removal] = []
  /// The same, by type.
  package var removedStartTokens: [Removal] = []

  package init(id: String, at: Int64) {
    self.id = id
    self.at = at
  }

  /// Whether it has the token of this set.
  package func hasToken(of set: DeviceSet) -> Bool {
    switch set {
    case .token(let bytes): token?.bytes == bytes
    case .startToken(let bytes): startTokens.contains { $0.token.bytes == bytes }
    default: false
    }
  }

  /// The push-to-start token for this attributes type, else that for any type.
  package func startToken(for type: String) -> Token? {
    (startTokens.first { $0.type.hasBytes(of: type) } ?? startTokens.first { $0.type == "*" })?.token
  }
}
