/// The apps seen by a lane, as small numbers: metrics are counted in arrays. Apps of credentials have a number from the start; an endless
/// stream of invented apps can neither take theirs nor grow the arrays.
package struct AppLabels: Sendable {
  /// Apps of no credential above this number are counted together, as `other`.
  package static let unknownMaximum = 500
  /// Apps of credentials above this number, those that reloads removed included, are counted like unknown ones.
  package static let knownMaximum = 16_384
  /// The number of `other`.
  package static let other = 0

  package private(set) var names: [String] = []
  private var spelled: [[UInt8]] = []
  /// Numbers of apps; at most half of the places are in use.
  private var buckets: [UInt16] = []
  private var unknownCount = 0
  private var last = 0

  package init() {
    rehash(bucketCount: 2048)
    insert(Array("other".utf8))
  }

  /// Gives an app of a credential its number.
  package mutating func reserve(_ app: String) {
    let bytes = Array(app.utf8)
    guard spelled.count - unknownCount < AppLabels.knownMaximum, find(bytes.span) == nil else { return }
    insert(bytes)
  }

  /// The number of the app with this name.
  package mutating func index(of name: Span<UInt8>) -> Int {
    if Self.isEqual(spelled[last], name) { return last }
    if let index = find(name) {
      last = index
      return index
    }
    guard unknownCount < AppLabels.unknownMaximum else { return AppLabels.other }
    var bytes: [UInt8] = []
    for index in name.indices { bytes.append(name[index]) }
    unknownCount += 1
    insert(bytes)
    last = spelled.count - 1
    return last
  }

  /// The label of a number from `index(of:)`.
  package func name(_ index: Int) -> String { names[index] }

  private mutating func insert(_ name: [UInt8]) {
    names.append(String(decoding: name, as: UTF8.self))
    spelled.append(name)
    if spelled.count * 2 > buckets.count {
      rehash(bucketCount: buckets.count * 2)
    } else {
      buckets[freeBucket(for: name)] = UInt16(spelled.count - 1)
    }
  }

  private mutating func rehash(bucketCount: Int) {
    buckets = Array(repeating: .max, count: bucketCount)
    for (index, name) in spelled.enumerated() { buckets[freeBucket(for: name)] = UInt16(index) }
  }

  private func freeBucket(for name: [UInt8]) -> Int {
    var bucket = firstBucket(name.span)
    while buckets[bucket] != .max { bucket = (bucket + 1) & (buckets.count - 1) }
    return bucket
  }

  private func find(_ name: Span<UInt8>) -> Int? {
    var bucket = firstBucket(name)
    while buckets[bucket] != .max {
      let candidate = Int(buckets[bucket])
      if Self.isEqual(spelled[candidate], name) { return candidate }
      bucket = (bucket + 1) & (buckets.count - 1)
    }
    return nil
  }

  private func firstBucket(_ name: Span<UInt8>) -> Int {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for index in name.indices { hash = (hash ^ UInt64(name[index])) &* 0x100_0000_01b3 }
    return Int(truncatingIfNeeded: hash) & (buckets.count - 1)
  }

  private static func isEqual(_ known: [UInt8], _ name: Span<UInt8>) -> Bool {
    guard known.count == name.count else { return false }
    for index in name.indices where known[index] != name[index] { return false }
    return true
  }
}
