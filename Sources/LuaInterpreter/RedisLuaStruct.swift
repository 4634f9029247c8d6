import CLua

/// The library `struct` of Redis' scripts. Formats have the options of lua_struct.c but alignment (`!`): `<` and `>` set the byte order;
/// `b`, `B`, `h`, `H`, `i`, `I`, `l`, `L`, `iN` and `IN` (N bytes, at most 8) are integers, in upper case unsigned; `f` and `d` floating-point
/// numbers; `s` a text that ends with a zero; `cN` N bytes, `c0` all or as many as the number before says; `x` a zero.
enum RedisLuaStruct {
  /// One item of a format.
  private enum Item {
    case integer(count: Int, isSigned: Bool)
    case float, double, zeroEnded, padding
    case bytes(count: Int)
  }

  /// Reads a format.
  private struct Format {
    let text: [UInt8]
    var at = 0
    var isBigEndian = false

    init(_ text: [UInt8]) { self.text = text }

    var isAtEnd: Bool { at == text.count }

    /// nil: an invalid option. Skips what is no item.
    mutating func next() -> Item?? {
      while at < text.count {
        let option = text[at]
        at += 1
        switch option {
        case UInt8(ascii: "<"): isBigEndian = false
        case UInt8(ascii: ">"): isBigEndian = true
        case UInt8(ascii: " "): break
        case UInt8(ascii: "b"), UInt8(ascii: "B"): return .integer(count: 1, isSigned: option == UInt8(ascii: "b"))
        case UInt8(ascii: "h"), UInt8(ascii: "H"): return .integer(count: 2, isSigned: option == UInt8(ascii: "h"))
        case UInt8(ascii: "l"), UInt8(ascii: "L"): return .integer(count: 8, isSigned: option == UInt8(ascii: "l"))
        case UInt8(ascii: "i"), UInt8(ascii: "I"):
          let count = number() ?? 4
          guard (1...8).contains(count) else { return .some(nil) }
          return .integer(count: count, isSigned: option == UInt8(ascii: "i"))
        case UInt8(ascii: "f"): return .float
        case UInt8(ascii: "d"): return .double
        case UInt8(ascii: "s"): return .zeroEnded
        case UInt8(ascii: "c"): return .bytes(count: number() ?? 1)
        case UInt8(ascii: "x"): return .padding
        default: return .some(nil)
        }
      }
      return nil
    }

    private mutating func number() -> Int? {
      var number: Int?
      while at < text.count, (48...57).contains(text[at]), (number ?? 0) < 1 << 30 {
        number = (number ?? 0) * 10 + Int(text[at] - 48)
        at += 1
      }
      return number
    }
  }

  /// `struct.pack(format, …)`.
  static func pack(_ state: OpaquePointer?) -> Int32 {
    guard var format = unsafe RedisLua.text(state, 1).map(Format.init) else {
      return unsafe fail(state, 1, "pack", "string expected")
    }
    var output: [UInt8] = []
    var argument: Int32 = 1
    while let item = format.next() {
      guard let item else { return unsafe invalid(state, format, "pack") }
      if case .padding = item {
        output.append(0)
        continue
      }
      argument += 1
      switch item {
      case .integer(let count, _):
        guard unsafe lua_isnumber(state, argument) != 0 else {
          return unsafe noNumber(state, argument)
        }
        let whole = unsafe lua_tonumber(state, argument).rounded(.towardZero)
        // Out of range, C makes what the processor makes of it.
        let bits = UInt64(exactly: whole) ?? UInt64(bitPattern: Int64(exactly: whole) ?? .min)
        append(bits, count, format, to: &output)
      case .float, .double:
        guard unsafe lua_isnumber(state, argument) != 0 else {
          return unsafe noNumber(state, argument)
        }
        let number = unsafe lua_tonumber(state, argument)
        if case .float = item {
          append(UInt64(Float(number).bitPattern), 4, format, to: &output)
        } else {
          append(number.bitPattern, 8, format, to: &output)
        }
      case .bytes(let count):
        guard let text = unsafe RedisLua.text(state, argument), text.count >= count else {
          return unsafe fail(state, argument, "pack", "string too short")
        }
        output += count == 0 ? text[...] : text.prefix(count)
      case .zeroEnded:
        guard let text = unsafe RedisLua.text(state, argument) else {
          return unsafe fail(state, argument, "pack", "string expected")
        }
        output += text
        output.append(0)
      case .padding: break
      }
    }
    unsafe RedisLua.push(output, to: state)
    return 1
  }

  /// `struct.unpack(format, text, position)`: the values, and the position after them.
  static func unpack(_ state: OpaquePointer?) -> Int32 {
    guard var format = unsafe RedisLua.text(state, 1).map(Format.init) else {
      return unsafe fail(state, 1, "unpack", "string expected")
    }
    var size = 0
    guard let start = unsafe lua_tolstring(state, 2, &size) else {
      return unsafe fail(state, 2, "unpack", "string expected")
    }
    let bytes = unsafe UnsafeRawBufferPointer(start: start, count: size)
    // A text at its index is not collected before the function returns.
    let position = unsafe lua_gettop(state) < 3 ? 1 : unsafe lua_tonumber(state, 3)
    guard position >= 1, position <= Double(Int32.max) else {
      return unsafe fail(state, 3, "unpack", "offset must be 1 or greater")
    }
    var at = Int(position) - 1
    unsafe lua_settop(state, 2)
    while let item = format.next() {
      guard let item else { return unsafe invalid(state, format, "unpack") }
      guard unsafe lua_checkstack(state, 4) != 0 else { return unsafe fail(state, 1, "unpack", "too many results") }
      var count =
        switch item {
        case .integer(let count, _), .bytes(let count): count
        case .float: 4
        case .double: 8
        case .padding: 1
        case .zeroEnded: 0
        }
      if case .bytes(count: 0) = item {
        guard unsafe lua_gettop(state) > 2, unsafe lua_isnumber(state, -1) != 0 else {
          return unsafe fail(state, 1, "unpack", "format `c0' needs a previous size")
        }
        let number = unsafe lua_tonumber(state, -1)
        unsafe lua_settop(state, -2)
        guard number >= 0, number <= Double(size) else { return unsafe tooShort(state) }
        count = Int(number)
      }
      guard at <= size, count <= size - at else { return unsafe tooShort(state) }
      switch item {
      case .integer(_, let isSigned):
        let bits = unsafe integer(bytes, at, count, format)
        let shift = UInt64(64 - 8 * count)
        unsafe lua_pushnumber(state, isSigned ? Double(Int64(bitPattern: bits << shift) >> shift) : Double(bits))
      case .float:
        unsafe lua_pushnumber(
          state, Double(Float(bitPattern: UInt32(truncatingIfNeeded: integer(bytes, at, 4, format)))))
      case .double: unsafe lua_pushnumber(state, Double(bitPattern: integer(bytes, at, 8, format)))
      case .bytes: unsafe RedisLua.push(Array(bytes[at..<at + count]), to: state)
      case .padding: break
      case .zeroEnded:
        guard let end = unsafe bytes[at...].firstIndex(of: 0) else {
          return unsafe fail(state, 2, "unpack", "unfinished string in data")
        }
        unsafe RedisLua.push(Array(bytes[at..<end]), to: state)
        count = end + 1 - at
      }
      at += count
    }
    unsafe lua_pushnumber(state, Double(at + 1))
    return unsafe lua_gettop(state) - 2
  }

  private static func append(_ bits: UInt64, _ count: Int, _ format: Format, to output: inout [UInt8]) {
    for place in 0..<count {
      let shift = UInt64(8 * (format.isBigEndian ? count - 1 - place : place))
      output.append(UInt8(truncatingIfNeeded: bits >> shift))
    }
  }

  private static func integer(_ bytes: UnsafeRawBufferPointer, _ at: Int, _ count: Int, _ format: Format) -> UInt64 {
    var bits: UInt64 = 0
    for place in 0..<count {
      bits = bits << 8 | UInt64(unsafe bytes[format.isBigEndian ? at + place : at + count - 1 - place])
    }
    return bits
  }

  private static func tooShort(_ state: OpaquePointer?) -> Int32 {
    unsafe fail(state, 2, "unpack", "data string too short")
  }

  private static func noNumber(_ state: OpaquePointer?, _ argument: Int32) -> Int32 {
    let kind = unsafe String(cString: lua_typename(state, max(LUA_TNIL, lua_type(state, argument))))
    return unsafe fail(state, argument, "pack", "number expected, got \(kind)")
  }

  private static func invalid(_ state: OpaquePointer?, _ format: Format, _ function: String) -> Int32 {
    let option = String(decoding: [format.text[format.at - 1]], as: UTF8.self)
    return unsafe fail(state, 1, function, "invalid format option '\(option)'")
  }

  private static func fail(_ state: OpaquePointer?, _ argument: Int32, _ function: String, _ why: String) -> Int32 {
    unsafe RedisLua.fail(state, Array("bad argument #\(argument) to '\(function)' (\(why))".utf8))
  }
}
