/// The date of HTTP answers: `Sun, 06 Nov 1994 08:49:37 GMT`.
package enum HTTPDate {
  private static let count = 29
  private static let weekdays: [String] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let months: [String] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// Unix seconds; nil if the text is not a date in the one form that servers may send.
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

  /// The text of a date. Whole seconds of the years 1970 to 9999.
  package static func bytes(unixSeconds: Int64) -> [UInt8] {
    let days = unixSeconds / 86_400
    let second = unixSeconds % 86_400
    // The same years that begin in March, the other way round.
    let shifted = days + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = Int((monthFromMarch + 2) % 12)
    var text: [UInt8] = []
    text.reserveCapacity(count)
    text.append(contentsOf: weekdays[Int((days + 4) % 7)].utf8)
    text.append(contentsOf: ", ".utf8)
    append(dayOfYear - (153 * monthFromMarch + 2) / 5 + 1, to: &text)
    text.append(ASCII.space)
    text.append(contentsOf: months[month].utf8)
    text.append(ASCII.space)
    let year = yearOfEra + era * 400 + (month < 2 ? 1 : 0)
    append(year / 100, to: &text)
    append(year % 100, to: &text)
    text.append(ASCII.space)
    append(second / 3_600, to: &text)
    text.append(ASCII.colon)
    append(second / 60 % 60, to: &text)
    text.append(ASCII.colon)
    append(second % 60, to: &text)
    text.append(contentsOf: " GMT".utf8)
    return text
  }

  private static func append(_ number: Int64, to text: inout [UInt8]) {
    text.append(UInt8(ascii: "0") + UInt8(number / 10 % 10))
    text.append(UInt8(ascii: "0") + UInt8(number % 10))
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
