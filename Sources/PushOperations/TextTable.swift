/// Tables as text: columns two spaces apart, no spaces at the end.
package enum TextTable {
  /// Lines with columns as wide as their widest text.
  package static func lines(_ rows: [[String]]) -> [String] {
    var widths: [Int] = []
    for row in rows {
      for (index, text) in row.enumerated() {
        if index == widths.count { widths.append(0) }
        widths[index] = max(widths[index], printable(text).count)
      }
    }
    return rows.map { line($0, widths: widths) }
  }

  /// A line with columns of these widths, for tables of unknown length: longer texts are cut. A column without a width takes the rest of
  /// the line.
  package static func line(_ columns: [String], widths: [Int]) -> String {
    var line = ""
    for (index, column) in columns.enumerated() {
      if index > 0 { line += "  " }
      let shown = printable(column)
      guard index < widths.count else {
        line += shown
        continue
      }
      let width = widths[index]
      line +=
        shown.count > width ? shown.prefix(width - 1) + "…" : shown + String(repeating: " ", count: width - shown.count)
    }
    while line.last == " " { line.removeLast() }
    return line
  }

  /// Texts from producers must not move the reader's cursor.
  package static func printable(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else { return text }
    return String(
      String.UnicodeScalarView(text.unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
  }
}
