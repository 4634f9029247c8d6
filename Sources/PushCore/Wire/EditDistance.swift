/// Finds the known word that was probably meant, for error messages.
package enum EditDistance {
  /// The word of two parts of which `text` is the first, or the most similar one, if at most a third of its letters (but two are always
  /// allowed) differ, and they share one; nil if there is none.
  package static func nearest(to text: String, among words: [String]) -> String? {
    if let longer = words.first(where: { $0.hasPrefix(text + "_") && !$0.dropFirst(text.count + 1).contains("_") }) {
      return longer
    }
    var best: (word: String, distance: Int)?
    for word in words {
      let distance = distance(Array(text.utf8), Array(word.utf8))
      if best.map({ distance < $0.distance }) ?? true { best = (word, distance) }
    }
    guard let best, best.distance <= max(2, best.word.utf8.count / 3) else { return nil }
    return Set(text.utf8).isDisjoint(with: best.word.utf8) ? nil : best.word
  }

  /// Letters to insert, remove or replace to make one text the other (Levenshtein).
  private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
    var row = Array(0...right.count)
    for (line, letter) in left.prefix(64).enumerated() {
      var diagonal = row[0]
      row[0] = line + 1
      for column in 0..<right.count {
        let cost = min(row[column] + 1, row[column + 1] + 1, diagonal + (letter == right[column] ? 0 : 1))
        diagonal = row[column + 1]
        row[column + 1] = cost
      }
    }
    return row[right.count]
  }
}
