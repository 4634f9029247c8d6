/// Numbers as Redis reads and writes them.
package enum SimulatedRedisNumber {
  /// Appends the number in decimal.
  static func write(_ number: Int64, to output: inout [UInt8]) {
    if number < 0 { output.append(UInt8(ascii: "-")) }
    let start = output.count
    var rest = number.magnitude
    repeat {
      output.append(UInt8(ascii: "0") + UInt8(rest % 10))
      rest /= 10
    } while rest > 0
    output[start...].reverse()
  }

  static func text(_ number: Int64) -> [UInt8] {
    var output: [UInt8] = []
    write(number, to: &output)
    return output
  }

  /// An integer as Redis parses it: no `+`, leading zeros or blanks. nil: invalid, or does not fit.
  static func integer(_ text: [UInt8]) -> Int64? {
    if text.count == 1, text[0] == UInt8(ascii: "0") { return 0 }
    var index = 0
    let isNegative = text.first == UInt8(ascii: "-")
    if isNegative { index = 1 }
    guard index < text.count, text.count <= 20, (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(text[index]) else {
      return nil
    }
    var number: Int64 = 0
    while index < text.count {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(text[index]) else { return nil }
      let digit = Int64(text[index] - UInt8(ascii: "0"))
      let (tens, isOver) = number.multipliedReportingOverflow(by: 10)
      let (sum, isOver2) = isNegative ? tens.subtractingReportingOverflow(digit) : tens.addingReportingOverflow(digit)
      if isOver || isOver2 { return nil }
      number = sum
      index += 1
    }
    return number
  }

  /// A score: decimal. nil: not a number.
  static func score(_ text: [UInt8]) -> Double? {
    var range = text[...]
    func isBlank(_ byte: UInt8) -> Bool { byte == 32 || (9...13).contains(byte) }
    while let first = range.first, isBlank(first) { range = range.dropFirst() }
    while let last = range.last, isBlank(last) { range = range.dropLast() }
    guard !range.isEmpty else { return nil }
    if let whole = integer(Array(range)), whole.magnitude < 1 << 53 { return Double(whole) }
    guard range.allSatisfy({ (48...57).contains($0) || $0 == 46 || $0 == 43 || $0 == 45 || $0 | 32 == 101 }) else {
      return nil
    }
    return Double(String(decoding: range, as: UTF8.self))
  }

  /// A score, as Redis prints it.
  static func text(of number: Double) -> [UInt8] {
    if let whole = Int64(exactly: number), whole.magnitude < 1 << 53 { return text(whole) }
    if number.isInfinite { return Array((number < 0 ? "-inf" : "inf").utf8) }
    return Array("\(number)".utf8)
  }
}
