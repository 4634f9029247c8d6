import CLua

/// Runs Redis scripts in Lua 5.1, in the environment that Redis 7.0 gives them: KEYS and ARGV, `redis.call`, `pcall`, `error_reply`,
/// `status_reply` and `sha1hex`, protected globals, and the libraries string, table, math and struct. It lacks what no script of Herald uses: cjson,
/// cmsgpack, bit, random numbers, RESP3 within scripts, and the rest of `redis`.
///
/// A run leaves nothing behind but its loaded script, and depends on nothing but its arguments and the replies to its commands.
@safe
package final class RedisLua {
  /// Runs a command of the running script.
  private var run: ([[UInt8]]) -> RedisLuaReply = { _ in .null }
  private let state: OpaquePointer
  /// References to the compiled scripts, by digest.
  private var scripts: [[UInt8]: Int32] = [:]
  /// References to the table of the scripts' globals, and to the error handler.
  private var globals: Int32 = 0
  private var handler: Int32 = 0

  /// A script that runs for longer has no end; about a second.
  private static let instructionsMaximum: Int32 = 100_000_000
  /// Values that a function of ours puts onto the stack at once.
  private static let stackSlots: Int32 = 4

  package init() {
    unsafe state = herald_lua_open()
    unsafe lua_createtable(state, 0, 5)
    unsafe add("call") { state, context in unsafe RedisLua.call(state, context, raises: true) }
    unsafe add("pcall") { state, context in unsafe RedisLua.call(state, context, raises: false) }
    unsafe add("error_reply") { state, _ in unsafe RedisLua.makeReply(state, isError: true) }
    unsafe add("sha1hex") { state, _ in unsafe RedisLua.makeDigest(state) }
    unsafe add("status_reply") { state, _ in unsafe RedisLua.makeReply(state, isError: false) }
    unsafe lua_setfield(state, LUA_GLOBALSINDEX, "redis")
    unsafe lua_createtable(state, 0, 2)
    unsafe add("pack") { state, _ in unsafe RedisLuaStruct.pack(state) }
    unsafe add("unpack") { state, _ in unsafe RedisLuaStruct.unpack(state) }
    unsafe lua_setfield(state, LUA_GLOBALSINDEX, "struct")
    protect()
  }

  deinit { unsafe lua_close(state) }

  /// Compiles a script, if it is not loaded.
  package func load(_ text: [UInt8], digest: [UInt8]) throws(RedisLuaSyntaxError) {
    guard scripts[digest] == nil else { return }
    let status = unsafe text.withUnsafeBufferPointer { bytes in
      unsafe bytes.withMemoryRebound(to: CChar.self) {
        unsafe luaL_loadbuffer(state, $0.baseAddress, $0.count, "@user_script")
      }
    }
    guard status == 0 else {
      let message = unsafe RedisLua.text(state, -1) ?? []
      unsafe lua_settop(state, 0)
      throw RedisLuaSyntaxError(text: Array("ERR Error compiling script (new function): ".utf8) + message)
    }
    scripts[digest] = unsafe luaL_ref(state, LUA_REGISTRYINDEX)
  }

  package func unloadAll() {
    for reference in scripts.values { unsafe luaL_unref(state, LUA_REGISTRYINDEX, reference) }
    scripts = [:]
  }

  /// Memory of the interpreter.
  package var kilobytes: Int32 { unsafe lua_gc(state, LUA_GCCOUNT, 0) }

  /// Runs a loaded script.
  /// - Parameter command: runs one of its commands; the first word is the name.
  package func run(
    _ digest: [UInt8], keys: [[UInt8]], arguments: [[UInt8]], command: @escaping ([[UInt8]]) -> RedisLuaReply
  ) -> RedisLuaResult {
    guard let script = scripts[digest] else { preconditionFailure("the script is not loaded") }
    run = command
    defer {
      run = { _ in .null }
      unsafe lua_settop(state, 0)
    }
    unsafe lua_rawgeti(state, LUA_REGISTRYINDEX, globals)
    for (name, values) in [("KEYS", keys), ("ARGV", arguments)] {
      unsafe RedisLua.push(Array(name.utf8), to: state)
      unsafe lua_createtable(state, Int32(values.count), 0)
      for (index, value) in values.enumerated() {
        unsafe RedisLua.push(value, to: state)
        unsafe lua_rawseti(state, -2, Int32(index + 1))
      }
      unsafe lua_rawset(state, -3)
    }
    unsafe lua_settop(state, 0)
    unsafe lua_rawgeti(state, LUA_REGISTRYINDEX, handler)
    unsafe lua_rawgeti(state, LUA_REGISTRYINDEX, script)
    unsafe herald_lua_bound(state, RedisLua.instructionsMaximum)
    guard unsafe lua_pcall(state, 0, 1, 1) == 0 else { return failure(digest) }
    return .returned(unsafe RedisLua.reply(state))
  }

  /// The error on top of the stack, as Redis words it.
  private func failure(_ digest: [UInt8]) -> RedisLuaResult {
    // Without its own memory for an error, Lua gives a text instead of the handler's table.
    guard unsafe lua_type(state, -1) == LUA_TTABLE else {
      return .failed(Array("ERR Error running script ".utf8) + digest)
    }
    var text = unsafe RedisLua.field("err", state) ?? Array("ERR unknown error".utf8)
    if let source = unsafe RedisLua.field("source", state), let line = unsafe RedisLua.field("line", state) {
      text += Array(" script: ".utf8) + digest + Array(", on ".utf8) + source + Array(":".utf8) + line
      text.append(UInt8(ascii: "."))
    }
    text = RedisLua.line(RedisLua.trimmed(text))
    return unsafe RedisLua.field("own", state) == nil ? .refused(text) : .failed(text)
  }

  // MARK: - Environment

  /// Gives the scripts a table of globals that they can only read, and an error handler like Redis' own.
  private func protect() {
    let preparation = """
      local debug, type, tostring, missing, readonly = debug, type, tostring, ...
      local all = _G
      for _, name in ipairs({'debug', 'dofile', 'getfenv', 'loadfile', 'module', 'newproxy', 'print', 'require'}) do all[name] = nil end
      math.random, math.randomseed = nil, nil
      -- An error of Redis is a table in redis.pcall, and a text here.
      local function unwrap(ok, err, ...)
        if not ok and type(err) == 'table' and type(err.err) == 'string' then return false, err.err end
        return ok, err, ...
      end
      local protected = pcall
      all.pcall = function(...) return unwrap(protected(...)) end
      setmetatable(all, {__index = missing})
      local globals = setmetatable({}, {__index = all, __newindex = readonly})
      all._G = globals
      return globals, function(err)
        local at = debug.getinfo(2, 'nSl')
        if at and at.what == 'C' then at = debug.getinfo(3, 'nSl') end
        if type(err) ~= 'table' then err = {err = 'ERR ' .. tostring(err), own = 'own'} end
        if at then err.source, err.line = at.source, tostring(at.currentline) end
        return err
      end
      """
    let status = unsafe luaL_loadbuffer(state, preparation, preparation.utf8.count, "@preparation")
    precondition(status == 0, "the preparation of the scripts' environment has an error")
    unsafe herald_lua_pushfunction(
      state,
      { state, _ in
        let name = unsafe RedisLua.text(state, 2) ?? []
        return unsafe RedisLua.fail(
          state, Array("Script attempted to access nonexistent global variable '".utf8) + name + [39])
      }, nil)
    unsafe herald_lua_pushfunction(
      state, { state, _ in unsafe RedisLua.fail(state, Array("Attempt to modify a readonly table".utf8)) }, nil)
    unsafe lua_call(state, 2, 2)
    handler = unsafe luaL_ref(state, LUA_REGISTRYINDEX)
    unsafe lua_pushvalue(state, -1)
    globals = unsafe luaL_ref(state, LUA_REGISTRYINDEX)
    unsafe lua_replace(state, LUA_GLOBALSINDEX)
  }

  /// Adds a function to the table on top of the stack.
  private func add(_ name: String, _ function: @escaping herald_lua_function) {
    unsafe herald_lua_pushfunction(state, function, Unmanaged.passUnretained(self).toOpaque())
    unsafe lua_setfield(state, -2, name)
  }

  // MARK: - redis

  /// `redis.call` and `redis.pcall`.
  private static func call(_ state: OpaquePointer?, _ context: UnsafeMutableRawPointer?, raises: Bool) -> Int32 {
    guard let context = unsafe context else { preconditionFailure("a function without its interpreter") }
    let interpreter = unsafe Unmanaged<RedisLua>.fromOpaque(context).takeUnretainedValue()
    let reply = unsafe interpreter.reply(toCallOn: state)
    guard unsafe push(reply, to: state) else { return unsafe fail(state, Array("reached lua stack limit".utf8)) }
    if raises, case .error = reply { return -1 }
    return 1
  }

  private func reply(toCallOn state: OpaquePointer?) -> RedisLuaReply {
    let count = unsafe lua_gettop(state)
    var words: [[UInt8]] = []
    words.reserveCapacity(Int(count))
    for index in 0..<count {
      if unsafe lua_type(state, index + 1) == LUA_TNUMBER { unsafe herald_lua_totext(state, index + 1) }
      guard let word = unsafe RedisLua.text(state, index + 1) else {
        return .error(Array("ERR Lua redis lib command arguments must be strings or integers".utf8))
      }
      words.append(word)
    }
    if words.isEmpty {
      return .error(Array("ERR Please specify at least one argument for this redis lib call".utf8))
    }
    return run(words)
  }

  /// `redis.error_reply` and `redis.status_reply`.
  private static func makeReply(_ state: OpaquePointer?, isError: Bool) -> Int32 {
    guard unsafe lua_gettop(state) == 1, unsafe lua_type(state, 1) == LUA_TSTRING, var text = unsafe text(state, 1)
    else {
      _ = unsafe push(.error(Array("ERR wrong number or type of arguments".utf8)), to: state)
      return 1
    }
    if isError {
      if text.first == UInt8(ascii: "-") { text.removeFirst() }
      // A text without a code gets one.
      if !text.contains(UInt8(ascii: " ")) { text = Array("ERR ".utf8) + text }
    }
    _ = unsafe push(isError ? .error(text) : .status(text), to: state)
    return 1
  }

  /// `redis.sha1hex`.
  private static func makeDigest(_ state: OpaquePointer?) -> Int32 {
    guard unsafe lua_gettop(state) == 1 else {
      _ = unsafe push(.error(Array("ERR wrong number of arguments".utf8)), to: state)
      return -1
    }
    unsafe push(RedisLuaDigest.text(of: text(state, 1) ?? []), to: state)
    return 1
  }

  // MARK: - Values

  /// Puts an error with the script's position onto the stack.
  static func fail(_ state: OpaquePointer?, _ text: [UInt8]) -> Int32 {
    unsafe luaL_where(state, 1)
    unsafe push(text, to: state)
    unsafe lua_concat(state, 2)
    return -1
  }

  static func push(_ bytes: [UInt8], to state: OpaquePointer?) {
    unsafe bytes.withUnsafeBufferPointer { bytes in
      unsafe bytes.withMemoryRebound(to: CChar.self) { unsafe lua_pushlstring(state, $0.baseAddress, $0.count) }
    }
  }

  /// Converts a reply of Redis; false: it is nested too deeply.
  private static func push(_ reply: RedisLuaReply, to state: OpaquePointer?) -> Bool {
    guard unsafe lua_checkstack(state, stackSlots) != 0 else { return false }
    switch reply {
    case .status(let text):
      unsafe lua_createtable(state, 0, 1)
      unsafe push(text, to: state)
      unsafe lua_setfield(state, -2, "ok")
    case .error(let text):
      unsafe lua_createtable(state, 0, 1)
      unsafe push(text, to: state)
      unsafe lua_setfield(state, -2, "err")
    case .integer(let number): unsafe lua_pushnumber(state, Double(number))
    case .bulk(let bytes): unsafe push(bytes, to: state)
    case .null: unsafe lua_pushboolean(state, 0)
    case .array(let values):
      unsafe lua_createtable(state, Int32(values.count), 0)
      for (index, value) in values.enumerated() {
        guard unsafe push(value, to: state) else { return false }
        unsafe lua_rawseti(state, -2, Int32(index + 1))
      }
    }
    return true
  }

  /// Converts the value on top of the stack into a reply.
  private static func reply(_ state: OpaquePointer?) -> RedisLuaReply {
    guard unsafe lua_checkstack(state, stackSlots) != 0 else {
      return .error(Array("ERR reached lua stack limit".utf8))
    }
    switch unsafe lua_type(state, -1) {
    case LUA_TSTRING: return .bulk(unsafe text(state, -1) ?? [])
    case LUA_TNUMBER:
      // The fraction is cut off.
      return .integer(Int64(exactly: unsafe lua_tonumber(state, -1).rounded(.towardZero)) ?? .min)
    case LUA_TBOOLEAN: return unsafe lua_toboolean(state, -1) != 0 ? .integer(1) : .null
    case LUA_TTABLE:
      if let error = unsafe field("err", state) { return .error(line(trimmed(error))) }
      if let status = unsafe field("ok", state) { return .status(line(status[...])) }
      var values: [RedisLuaReply] = []
      while true {
        unsafe lua_rawgeti(state, -1, Int32(values.count + 1))
        // A list ends at its first nil.
        let isEnd = unsafe lua_type(state, -1) == LUA_TNIL
        if !isEnd { values.append(unsafe reply(state)) }
        unsafe lua_settop(state, -2)
        if isEnd { return .array(values) }
      }
    default: return .null
    }
  }

  /// A text of the table on top of the stack.
  private static func field(_ name: String, _ state: OpaquePointer?) -> [UInt8]? {
    unsafe push(Array(name.utf8), to: state)
    unsafe lua_rawget(state, -2)
    defer { unsafe lua_settop(state, -2) }
    return unsafe lua_type(state, -1) == LUA_TSTRING ? unsafe text(state, -1) : nil
  }

  /// The bytes of a string; nil: the value is neither a string nor a number.
  static func text(_ state: OpaquePointer?, _ index: Int32) -> [UInt8]? {
    var count = 0
    guard let start = unsafe lua_tolstring(state, index, &count) else { return nil }
    return unsafe Array(UnsafeRawBufferPointer(start: start, count: count))
  }

  /// A status or an error is one line.
  private static func line(_ text: ArraySlice<UInt8>) -> [UInt8] {
    text.map { $0 == 10 || $0 == 13 ? UInt8(ascii: " ") : $0 }
  }

  /// Without the ends of lines behind it.
  private static func trimmed(_ text: [UInt8]) -> ArraySlice<UInt8> {
    var text = text[...]
    while let last = text.last, last == 10 || last == 13 { text.removeLast() }
    return text
  }
}
