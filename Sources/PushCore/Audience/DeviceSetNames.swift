extension DeviceSet {
  /// The sets to look up a device that a job names by its id or alert token: lower-case hex digits may be either.
  package static func sets(ofDevice text: String) -> [DeviceSet] {
    let digits = text.utf8.span
    guard Limits.tokenDigitsMinimum...Limits.tokenDigitsMaximum ~= digits.count, digits.count % 2 == 0,
      Hex.classify(digits) == .lowerCase
    else { return [.id(text)] }
    var token: [UInt8] = []
    for index in stride(from: 0, to: digits.count, by: 2) {
      token.append((Hex.value(digits[index]) ?? 0) << 4 | (Hex.value(digits[index + 1]) ?? 0))
    }
    return [.id(text), .token(token)]
  }
}
