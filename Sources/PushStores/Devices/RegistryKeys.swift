package import PushCore

/// The names of an app's device keys in Redis. They share one hash tag, so all are in one slot of a cluster and change
/// in one script.
package struct RegistryKeys: Hashable, Sendable {
  /// The prefix of every name.
  package let tag: String

  package init(prefix: String, scope: AppScope) {
    tag = "\(prefix){devices:\(scope.environment.name):\(scope.app)}:"
  }

  /// Set: apps that have devices, as `<environment>:<app>`.
  package static func scopes(prefix: String) -> String { "\(prefix)devices:scopes" }

  /// Identifies this registry among those that Redis had before it was emptied: when its first ordinal was allocated,
  /// Unix microseconds. An ordinal means a device only in its epoch.
  package var epoch: String { tag + "epoch" }
  /// The next ordinal.
  package var next: String { tag + "next" }
  /// Sorted set: ordinals without a device, by when they were freed (Unix s). They are reused after a rest. An
  /// allocated ordinal stays here until its device is stored, so that none is lost if the worker crashes.
  package var free: String { tag + "free" }
  /// Hash: a word's number (four bytes, little-endian) → the word.
  package var words: String { tag + "word" }
  /// Set: the OS versions that devices have had, as `OSVersion.text`.
  package var osVersions: String { tag + "os" }

  /// Hash: the ordinal modulo 64 → the device's record.
  package func records(of ordinal: UInt32) -> String { tag + "d:\(ordinal / 64)" }
  /// Hash: a set's word (eight bytes, little-endian) → its ordinals (four bytes each, little-endian, ascending), or
  /// `*`: in chunks.
  package func bucket(of set: DeviceSetName) -> String { tag + "p:\(set.bucket)" }
  /// A large set's part in a chunk, encoded as `OrdinalChunk` describes.
  package func chunk(_ index: Int, of set: DeviceSetName) -> String { "\(tag)c:\(set.wordDigits):\(index)" }
  /// The name of a mark, `forgotten:<hash>`, is a hash of this and of the key `secret`: scripts make it. A mark is when the subject was
  /// forgotten, Unix milliseconds; it expires, and the secret with the last one. The same hash of a user names `former:<hash>`, a sorted set by
  /// when it was noted (Unix s): `<ordinal>:<until when it was the user's>`.
  static func text(of subject: ForgottenSubject) -> String {
    switch subject {
    case .device(let id): "d:\(id)"
    case .user(let id): "u:\(id)"
    }
  }

  /// The same for a token that no device has any more. Its mark is a part of the hash of the device that had it last (8 digits), then when that
  /// registered it.
  static func text(of token: DeviceSetName) -> String { "t:\(token.bucket):\(token.wordDigits)" }
}

extension DeviceSetName {
  /// The word in keys: 16 hex digits.
  var wordDigits: String { Hex.text(word, count: 16) }

  /// The word in hashes: eight bytes, little-endian.
  var wordBytes: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64($0 * 8)) } }
}
