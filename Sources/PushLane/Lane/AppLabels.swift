/// The apps seen by a lane, as small numbers: metrics are counted in arrays, and an endless stream of invented apps
/// cannot grow them.
package struct AppLabels: Sendable {
  /// Apps above this number are counted together, as `other`.
  package static let maximum = 500

  package private(set) var names: [String] = []
  private var spelled: [[UInt8]] = []
  private var buckets: [UInt16] = Array(repeating: .max, count: 1024)
  private var last = 0

  package init() {}

  /// The number of the app with this name.
  package mutating func index(of name: Span<UInt8>) -> Int {
    if last < spelled.count, Self.isEqual(spelled[last], name) { return last }
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for index in name.indices { hash = (hash ^ UInt64(name[index])) &* 0x100_0000_01b3 }
    var bucket = Int(truncatingIfNeeded: hash) & (buckets.count - 1)
    while buckets[bucket] != .max {
      let candidate = Int(buckets[bucket])
      if Self.isEqual(spelled[candidate], name) {
        last = candidate
        return candidate
      }
      bucket = (bucket + 1) & (buckets.count - 1)
    }
    guard spelled.count < Self.maximum else { return Self.maximum }
    var bytes: [UInt8] = []
    for index in name.indices { bytes.append(name[index]) }
    buckets[bucket] = UInt16(spelled.count)
    names.append(String(decoding: bytes, as: UTF8.self))
    spelled.append(bytes)
    last = spelled.count - 1
    return last
  }

  /// The label of a number from `index(of:)`.
  package func name(_ index: Int) -> String {
    index < names.count ? names[index] : "other"
  }

  private static func isEqual(_ known: [UInt8], _ name: Span<UInt8>) -> Bool {
    guard known.count == name.count else { return false }
    for index in name.indices where known[index] != name[index] { return false }
    return true
  }
}
