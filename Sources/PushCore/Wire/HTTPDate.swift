/// The date of HTTP answers: `Sun, 06 Nov 1994 08:49:37 GMT`.
package enum HTTPDate {
  private static let count = 29
  private static let months: [String] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// Unix seconds; nil where the text is not a date in the one form that servers may send.
  package static func unixSeconds(_ text: Span<UInt8>) -> Int64? {
    guard text.count == count, text[3] == ASCII.comma, text.extracting(25..<29).equals(" GMT"),
      text[19] == ASCII.colon, text[22] == ASCII.colon,
      let day = number(text, 5..<7), let year = number(text, 12..<16), let hour = number(text, 17..<19),
      let minute = number(text, 20..<22), let second = number(text, 23..<25),
      let month = months.indices.first(where: { text.extracting(8..<11).equals(months[$0]) }),
      (1...31).contains(day), hour < 24, minute < 60, second <= 60, year >= 1970
    else { return nil }
    // Days since 1970, with years that begin in March so that the leap day is their last.
    let shifted = Int64(month < 2 ? year - 1 : year)
    let monthFromMarch = Int64((month + 10) % 12)
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * monthFromMarch + 2) / 5 + Int64(day) - 1
    let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    return days * 86_400 + Int64(hour * 3_600 + minute * 60 + second)
  }

  private static func number(_ text: Span<UInt8>, _ range: Range<Int>) -> Int? {
    var value = 0
    for index in range {
      guard text[index] >= UInt8(ascii: "0"), text[index] <= UInt8(ascii: "9") else { return nil }
      value = value * 10 + Int(text[index] - UInt8(ascii: "0"))
    }
    return value
  }
}
