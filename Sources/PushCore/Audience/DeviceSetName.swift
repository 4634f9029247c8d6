/// The name of a set of devices in Redis: a hash of its definition.
///
/// 82 of the 128 bits are kept: among 100 million sets, the probability of a collision is below one in a hundred
/// million.
package struct DeviceSetName: Hashable, Sendable {
  /// Small sets of one bucket share a key.
  package static let bucketCount: UInt32 = 1 << 18

  package let bucket: UInt32
  /// Its name in the bucket, and in the keys of a large set's chunks.
  package let word: UInt64

  /// SipHash-2-4 with a fixed key, because all workers must agree. Each text follows its length, so no two sets give
  /// the same bytes.
  package init(_ set: DeviceSet) {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2061, key1: 0x7564_6965_6E63_6573)
    switch set {
    case .everyone: hash.append(0)
    case .id(let id):
      hash.append(1)
      hash.append(text: id.utf8.span)
    case .token(let token):
      hash.append(2)
      hash.append(text: token.span)
    case .startToken(let token):
      hash.append(15)
      hash.append(text: token.span)
    case .user(let user):
      hash.append(3)
      hash.append(text: user.utf8.span)
    case .hasToken: hash.append(4)
    case .hasPushToStart(let type):
      hash.append(5)
      hash.append(text: type.utf8.span)
    case .locale(let locale):
      hash.append(6)
      hash.append(text: locale.utf8.span)
    case .osVersion(let version):
      hash.append(7)
      hash.append(UInt64(version.major) << 32 | UInt64(version.minor) << 16 | UInt64(version.patch))
    case .seen(let day):
      hash.append(8)
      hash.append(UInt64(bitPattern: Int64(day)))
    case .tagText(let tag, let value):
      hash.append(9)
      hash.append(text: tag.utf8.span)
      hash.append(text: value.utf8.span)
    case .tagFlag(let tag, let value):
      hash.append(value ? 11 : 10)
      hash.append(text: tag.utf8.span)
    case .tagExists(let tag):
      hash.append(12)
      hash.append(text: tag.utf8.span)
    case .tagIsNumber(let tag):
      hash.append(13)
      hash.append(text: tag.utf8.span)
    case .tagBit(let tag, let bit):
      hash.append(14)
      hash.append(text: tag.utf8.span)
      hash.append(UInt64(bit))
    }
    let (first, second) = hash.finish()
    bucket = UInt32(truncatingIfNeeded: first) & (DeviceSetName.bucketCount - 1)
    word = second
  }

  /// The word is a hash already, and differs between almost all names.
  package func hash(into hasher: inout Hasher) { hasher.combine(word) }
}

extension SipHash128 {
  fileprivate mutating func append(text bytes: Span<UInt8>) {
    append(UInt64(bytes.count))
    append(padding: bytes)
  }
}
