/// Strings as in the scripts' Lua: bytes, counted from 1.
enum SimulatedLuaBytes {
  static func byte(_ text: [UInt8], _ at: Int) -> UInt8? {
    at >= 1 && at <= text.count ? text[at - 1] : nil
  }

  /// `string.sub`; empty if out of range.
  static func sub(_ text: [UInt8], _ first: Int, _ last: Int = .max) -> ArraySlice<UInt8> {
    let start = max(first, 1)
    let stop = min(last, text.count)
    return start <= stop ? text[start - 1..<stop] : []
  }

  /// `string.find(text, part, from, true)`: the start of the match.
  static func find(_ text: [UInt8], _ part: ArraySlice<UInt8>, from: Int = 1) -> Int? {
    guard let head = part.first else { return min(max(from, 1), text.count + 1) }
    let start = part.startIndex
    var at = max(from, 1) - 1
    while at + part.count <= text.count {
      if text[at] == head {
        var same = 1
        while same < part.count, text[at + same] == part[start + same] { same += 1 }
        if same == part.count { return at + 1 }
      }
      at += 1
    }
    return nil
  }

  /// `struct.unpack('<I…')` of `count` bytes, which must exist.
  static func unpack(_ text: [UInt8], _ at: Int, count: Int) -> Double {
    var number: UInt64 = 0
    for offset in (0..<count).reversed() { number = number << 8 | UInt64(text[at - 1 + offset]) }
    return Double(number)
  }

  /// `struct.unpack('<d')`.
  static func unpackDouble(_ text: [UInt8], _ at: Int) -> Double {
    var bits: UInt64 = 0
    for offset in (0..<8).reversed() { bits = bits << 8 | UInt64(text[at - 1 + offset]) }
    return Double(bitPattern: bits)
  }

  /// `struct.pack('<I…')`: the lowest bytes.
  static func pack(_ number: Double, count: Int, to output: inout [UInt8]) {
    let whole = number.rounded(.towardZero)
    let bits = UInt64(exactly: whole) ?? UInt64(bitPattern: Int64(exactly: whole) ?? .min)
    for place in 0..<count { output.append(UInt8(truncatingIfNeeded: bits >> UInt64(8 * place))) }
  }

  static func packDouble(_ number: Double, to output: inout [UInt8]) {
    for place in 0..<8 { output.append(UInt8(truncatingIfNeeded: number.bitPattern >> UInt64(8 * place))) }
  }

  /// `string.format('%08x%08x', struct.unpack('>I4I4', name))` of eight bytes.
  static func hex(_ name: ArraySlice<UInt8>) -> [UInt8] {
    var text: [UInt8] = []
    for byte in name.prefix(8) {
      for digit in [byte >> 4, byte & 15] {
        text.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
      }
    }
    return text
  }
}
