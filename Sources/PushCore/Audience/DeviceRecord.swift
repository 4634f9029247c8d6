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

    package init(name: String, value: TagValue) {
      self.name = name
      self.value = value
    }
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
  /// Ascending by type.
  package var startTokens: [StartToken] = []
  /// As registered, with hyphens.
  package var locale: String?
  package var osVersion: OSVersion?
  package var timeZone: String?
  /// Ascending by name.
  package var tags: [Tag] = []
  /// The newest last, at most `DeviceLimits.goneTokensMaximum`.
  package var goneTokens: [GoneToken] = []
  /// The fingerprints of the registrations at the record's time that incremented a tag, the latest last.
  package var incrementFingerprints: [UInt32] = []

  package init(id: String, at: Int64) {
    self.id = id
    self.at = at
  }

  /// The push-to-start token for this attributes type, else that for any type.
  package func startToken(for type: String) -> Token? {
    (startTokens.first { $0.type == type } ?? startTokens.first { $0.type == "*" })?.token
  }
}
