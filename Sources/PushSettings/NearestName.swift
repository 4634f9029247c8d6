/// Finds the known name that was probably meant.
enum NearestName {
  /// The candidate with the fewest edits (insert, delete, replace, swap); nil if none is similar.
  static func find(_ name: String, in candidates: some Sequence<String>) -> String? {
    var best: (name: String, distance: Int)?
    for candidate in candidates {
      let distance = distance(Array(name.utf8), Array(candidate.utf8))
      if distance < best?.distance ?? Int.max { best = (candidate, distance) }
    }
    guard let best, best.distance <= max(2, best.name.utf8.count / 3) else { return nil }
    return best.name
  }

  /// The optimal string alignment distance.
  private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
    var beforePrevious: [Int] = []
    var previous = Array(0...right.count)
    for (row, byte) in left.enumerated() {
      var current = [row + 1]
      for (column, other) in right.enumerated() {
        var value = min(previous[column + 1] + 1, current[column] + 1, previous[column] + (byte == other ? 0 : 1))
        if row > 0, column > 0, byte == right[column - 1], left[row - 1] == other {
          value = min(value, beforePrevious[column - 1] + 1)
        }
        current.append(value)
      }
      beforePrevious = previous
      previous = current
    }
    return previous[right.count]
  }
}
