/// Deduplicates the targets of a job: a device that is named twice gets one push. The table keeps its memory.
struct TokenSet {
  /// Index into the targets plus one; 0: free. There are twice as many slots as targets, so a free one is always near.
  private var places: [UInt16] = []

  /// Removes duplicates; keeps the order of the first mentions.
  mutating func removeRepeated(_ targets: inout [ByteRange], in bytes: Span<UInt8>) {
    precondition(targets.count <= Limits.targetsMaximum, "more targets than a job may have")
    var size = 16
    while size < targets.count * 2 { size *= 2 }
    places.removeAll(keepingCapacity: true)
    places.append(contentsOf: repeatElement(0, count: size))
    var kept = 0
    for index in targets.indices {
      let target = targets[index]
      if insert(target, in: bytes, targets, kept, mask: size - 1) {
        targets[kept] = target
        kept += 1
      }
    }
    targets.removeLast(targets.count - kept)
  }

  /// Moves a target to index `kept` unless an earlier one is equal.
  private mutating func insert(
    _ target: ByteRange, in bytes: Span<UInt8>, _ targets: [ByteRange], _ kept: Int, mask: Int
  ) -> Bool {
    let content = bytes.extracting(target.range)
    var hash: UInt64 = UInt64(content.count)
    for offset in stride(from: 0, to: content.count, by: 8) {
      hash = (hash ^ content.word(at: offset, count: content.count - offset)) &* 0x9E37_79B9_7F4A_7C15
      hash ^= hash >> 29
    }
    var place = Int(truncatingIfNeeded: hash >> 17) & mask
    while places[place] != 0 {
      let other = bytes.extracting(targets[Int(places[place]) - 1].range)
      if content.isSame(as: other) { return false }
      place = (place + 1) & mask
    }
    places[place] = UInt16(kept + 1)
    return true
  }
}
