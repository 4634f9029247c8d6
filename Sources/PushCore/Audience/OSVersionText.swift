extension OSVersion {
  /// The rule as a text, to be followed by the wrong value.
  package static let rule = "must be a version such as 18.1: one to three numbers below 65536"

  /// `18`, `18.1`, `18.1.2`; nil for others.
  package init?(text: String) {
    guard text.utf8.count <= 17 else { return nil }
    var numbers: [UInt16] = []
    for part in text.utf8.split(separator: ASCII.dot, omittingEmptySubsequences: false) {
      guard numbers.count < 3, 1...5 ~= part.count else { return nil }
      var number: UInt32 = 0
      for byte in part {
        guard byte &- ASCII.zero < 10 else { return nil }
        number = number * 10 + UInt32(byte &- ASCII.zero)
      }
      guard let number = UInt16(exactly: number) else { return nil }
      numbers.append(number)
    }
    self.init(
      major: numbers[0], minor: numbers.count > 1 ? numbers[1] : 0, patch: numbers.count > 2 ? numbers[2] : 0)
  }

  /// `18.1`, or `18.1.2` if there is a patch.
  package var text: String { patch == 0 ? "\(major).\(minor)" : "\(major).\(minor).\(patch)" }
}
