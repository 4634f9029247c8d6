import LuaInterpreter
import Testing

/// The interpreter of scripts, without a Redis. `SimulatedRedisDifferentialTests` compares it with a real one.
@Suite struct RedisLuaTests {
  private let lua = RedisLua()

  private func run(
    _ text: String, keys: [String] = [], arguments: [String] = [],
    command: @escaping ([[UInt8]]) -> RedisLuaReply = { .bulk(Array($0.joined(separator: [32]))) }
  ) throws -> RedisLuaResult {
    let digest = Array(text.utf8)
    try lua.load(Array(text.utf8), digest: digest)
    return lua.run(
      digest, keys: keys.map { Array($0.utf8) }, arguments: arguments.map { Array($0.utf8) }, command: command)
  }

  @Test func everyKindOfValueReturns() throws {
    let rows: [(String, RedisLuaReply)] = [
      ("return 'a\\0b'", .bulk([97, 0, 98])), ("return 3.99", .integer(3)), ("return -3.99", .integer(-3)),
      ("return true", .integer(1)), ("return false", .null), ("return nil", .null), ("return", .null),
      ("return redis.call", .null), ("return 2^63", .integer(.min)),
      ("return {1, 'b', {2}, nil, 4}", .array([.integer(1), .bulk([98]), .array([.integer(2)])])),
      ("return {ok = 'fine\\r\\n'}", .status(Array("fine  ".utf8))),
      ("return redis.status_reply('fine')", .status(Array("fine".utf8))),
      ("return {err = 'BAD thing'}", .error(Array("BAD thing".utf8))),
      ("return redis.sha1hex('abc')", .bulk(Array("a9993e364706816aba3e25717850c26c9cd0d89d".utf8))),
      ("return redis.error_reply('bad')", .error(Array("ERR bad".utf8))),
      ("return redis.error_reply('-MY bad')", .error(Array("MY bad".utf8))),
      ("return {KEYS[1], ARGV[1], #KEYS, #ARGV}", .array([.bulk([107]), .bulk([97]), .integer(1), .integer(1)])),
    ]
    for (text, reply) in rows {
      #expect(try run(text, keys: ["k"], arguments: ["a"]) == .returned(reply), "\(text)")
    }
  }

  @Test func repliesOfCommandsBecomeValues() throws {
    func type(_ reply: RedisLuaReply, _ text: String) throws -> RedisLuaResult { try run(text) { _ in reply } }
    let ok = RedisLuaResult.returned(.integer(1))
    #expect(try type(.null, "return redis.call('x') == false") == ok)
    #expect(try type(.integer(7), "return redis.call('x') == 7") == ok)
    #expect(try type(.bulk([97]), "return redis.call('x') == 'a'") == ok)
    #expect(try type(.status([97]), "return redis.call('x').ok == 'a'") == ok)
    #expect(try type(.error([97]), "return redis.pcall('x').err == 'a'") == ok)
    #expect(
      try type(.array([.null, .integer(2)]), "local l = redis.call('x') return l[1] == false and l[2] == 2") == ok)
  }

  /// Numbers are written as Redis writes them; anything but numbers and texts is refused.
  @Test func argumentsOfCommands() throws {
    #expect(
      try run("return redis.call('SET', 'k', 12, 1.5, 2^53, 1e17, 0.1, -0)")
        == .returned(.bulk(Array("SET k 12 1.5 9007199254740992 1e+17 0.10000000000000001 -0".utf8))))
    #expect(
      try run("return redis.pcall('SET', {})")
        == .returned(.error(Array("ERR Lua redis lib command arguments must be strings or integers".utf8))))
    #expect(
      try run("return redis.pcall()")
        == .returned(.error(Array("ERR Please specify at least one argument for this redis lib call".utf8))))
    #expect(try run("return redis.call(unpack(ARGV))", arguments: ["A", "b"]) == .returned(.bulk(Array("A b".utf8))))
  }

  /// A command's error and the script's own are told apart; both name script and line.
  @Test func errorsNameTheirLine() throws {
    let call = "local a = 1\nreturn redis.call('x')"
    #expect(
      try run(call) { _ in .error(Array("WRONGTYPE no".utf8)) }
        == .refused(Array("WRONGTYPE no script: \(call), on @user_script:2.".utf8).map { $0 == 10 ? 32 : $0 }))
    let own = "local a\n return a.b"
    #expect(
      try run(own)
        == .failed(
          Array(
            "ERR user_script:2: attempt to index local 'a' (a nil value) script: \(own), on @user_script:2.".utf8
          ).map { $0 == 10 ? 32 : $0 }))
    for (text, error) in [
      ("return nosuch", "Script attempted to access nonexistent global variable 'nosuch'"),
      ("nosuch = 1", "Attempt to modify a readonly table"), ("redis = 1", "Attempt to modify a readonly table"),
      ("return math.random()", "attempt to call field 'random' (a nil value)"),
      ("return struct.unpack('<I4', 'abc')", "bad argument #2 to 'unpack' (data string too short)"),
    ] {
      #expect(
        try run(text)
          == .failed(Array("ERR user_script:1: \(error) script: \(text), on @user_script:1.".utf8)), "\(text)")
    }
    #expect(throws: RedisLuaSyntaxError.self) { try run("return (") }
  }

  @Test func aScriptWithoutEndIsStopped() throws {
    guard case .failed(let text) = try run("while true do end") else {
      Issue.record("it ended")
      return
    }
    #expect(String(decoding: text, as: UTF8.self).hasPrefix("ERR the script does not end script: while true"))
    #expect(try run("return 1") == .returned(.integer(1)))
  }

  @Test func numbersArePackedAsInC() throws {
    let rows: [(String, String)] = [
      ("'<BI4', 1, 258", "01 02 01 00 00"), ("'>I4I4', 1, 2", "00 00 00 01 00 00 00 02"),
      ("'<I7', 2^40", "00 00 00 00 00 01 00"), ("'<d', -1.5", "00 00 00 00 00 00 f8 bf"),
      ("'<i2', -2", "fe ff"), ("'>h', 1.9", "00 01"), ("'<f', 1", "00 00 80 3f"),
      ("'bxc2s', 1, 'abc', 'd'", "01 00 61 62 64 00"),
      ("'<I3', 2^24 + 5", "05 00 00"), ("'c0', 'xyz'", "78 79 7a"), ("'<B', '7'", "07"),
    ]
    for (arguments, bytes) in rows {
      let text = """
        local hex = {}
        for _, byte in ipairs({string.byte(struct.pack(\(arguments)), 1, -1)}) do hex[#hex + 1] = string.format('%02x', byte) end
        return table.concat(hex, ' ')
        """
      #expect(try run(text) == .returned(.bulk(Array(bytes.utf8))), "\(arguments)")
    }
    let back: [(String, String)] = [
      ("'<BI4', '\\1\\2\\1\\0\\0'", "1 258 6"), ("'>I2', '\\1\\2'", "258 3"), ("'<i2', '\\254\\255'", "-2 3"),
      ("'<d', '\\0\\0\\0\\0\\0\\0\\248\\191'", "-1.5 9"), ("'<I2', 'abc', 2", "25442 4"), ("'Bc0', '\\2abc'", "ab 4"),
      ("'sB', 'ab\\0\\9'", "ab 9 5"),
      ("'<' .. string.rep('BBI2', 2), '\\1\\2\\3\\4\\5\\6\\7\\8'", "1 2 1027 5 6 2055 9"),
    ]
    for (arguments, values) in back {
      #expect(
        try run("return table.concat({struct.unpack(\(arguments))}, ' ')") == .returned(.bulk(Array(values.utf8))),
        "\(arguments)")
    }
  }

  /// A run leaves nothing behind, and the memory of many runs is used again.
  @Test func aRunLeavesNothingBehind() throws {
    for number in 0..<20_000 {
      #expect(
        try run("local t = {} for i = 1, 50 do t[i] = ARGV[1] .. i end return #t", arguments: ["\(number)"])
          == .returned(.integer(50)))
    }
    #expect(lua.kilobytes < 1000, "\(lua.kilobytes)")
    #expect(try run("return {#KEYS, #ARGV}") == .returned(.array([.integer(0), .integer(0)])))
    lua.unloadAll()
    #expect(try run("return 1") == .returned(.integer(1)))
  }
}
