import PushCore

/// The scripts by which a fleet keeps one registry of devices. They know records and sets as bytes only: what a record means is decided by
/// workers, who read it, make another one of it, and store that where nobody changed it meanwhile.
///
/// All keys begin with KEYS[1]; those of sets and records are made of it in the scripts, because a worker does not know them before it has
/// read. KEYS[1] is itself no key: where a cluster moves the slot, a script with a key that is missing and another one is refused, until all
/// is in one place. A script reads each key before its first write, so that none ends halfway.
enum DeviceScript {
  /// A set with more members goes to chunks.
  static let smallMaximum = 15
  /// A bitmap with at most so many members becomes a list again.
  static let shrinkMaximum = 256

  /// KEYS: tag, next. ARGV: rest of freed ordinals (s), then for each device: bucket and word of its id (empty: not asked), bucket and word of a
  /// token (or empty), an ordinal (or empty), when a new ordinal is wanted: 0 never, 1 where the id has none, 2 always.
  ///
  /// Replies for each: {the id's ordinals, their records…}, {the token's ordinals, their records…}, the ordinal's record, the new ordinal.
  static let find = LuaScript(
    #"""
    local P = KEYS[1]
    local function record(ordinal)
      return redis.call('HGET', P .. 'd:' .. math.floor(ordinal / 64), ordinal % 64)
    end
    local function found(bucket, word)
      if bucket == '' then return false end
      local value = redis.call('HGET', P .. 'p:' .. bucket, word) or ''
      local result = {value}
      for at = 1, #value - 3, 4 do result[#result + 1] = record(struct.unpack('<I4', value, at)) end
      return result
    end
    local result, wanted = {}, {}
    for at = 2, #ARGV, 6 do
      local ids = found(ARGV[at], ARGV[at + 1])
      local tokens = found(ARGV[at + 2], ARGV[at + 3])
      local own = ARGV[at + 4] ~= '' and record(tonumber(ARGV[at + 4]))
      local item = {ids, tokens, own, false}
      if ARGV[at + 5] == '2' or ARGV[at + 5] == '1' and ids[1] == '' then wanted[#wanted + 1] = item end
      result[#result + 1] = item
    end
    if #wanted > 0 then
      local now = tonumber(redis.call('TIME')[1])
      local rested = redis.call('ZRANGEBYSCORE', P .. 'free', '-inf', now - ARGV[1], 'LIMIT', 0, #wanted)
      local last = #rested < #wanted and redis.call('INCRBY', P .. 'next', #wanted - #rested)
      for index, item in ipairs(wanted) do
        local ordinal = tonumber(rested[index]) or last - #wanted + index - 1
        redis.call('ZADD', P .. 'free', now, string.format('%.0f', ordinal))
        item[4] = ordinal
      end
    end
    return result
    """#)

  /// KEYS: tag, next. ARGV: number of changes, then each: numbers of forget marks, guards, records, words, marks and OS versions; for each
  /// - forget mark: its name, the registration's time: a mark as late as that ends the change;
  /// - guard: a set's bucket and word, its ordinals as they were read;
  /// - record: hash, field, its bytes as they were read (empty: none), its new bytes (empty: none);
  /// - word: number, text;
  /// - mark: a forget mark's name, its time, how long it stays (s);
  /// - OS version: its text.
  /// Then for each set: bucket, word, word's digits, and seven bytes for each change of it: number of the change, 1 = enters or 0 = leaves,
  /// ordinal.
  ///
  /// Replies for each change: 1 = done, 0 = something is not as it was read, 2 = forgotten, 4 = the words' table is full, or a word's number
  /// that another word has. What is not done changed nothing.
  static let commit = LuaScript(
    #"""
    local P = KEYS[1]
    local at = 1
    local function take()
      at = at + 1
      return ARGV[at]
    end
    local codes, writes, touched, added = {}, {}, {}, {}
    local function write(...) writes[#writes + 1] = {...} end

    for index = 1, tonumber(ARGV[1]) do
      local marked, guards, records = tonumber(take()), tonumber(take()), tonumber(take())
      local words, marks, versions = tonumber(take()), tonumber(take()), tonumber(take())
      local code, names, first = 1, {}, #writes
      for _ = 1, marked do
        local time, limit = redis.call('GET', P .. take()), tonumber(take())
        if time and tonumber(time) >= limit then code = 2 end
      end
      for _ = 1, guards do
        local bucket, word, value = take(), take(), take()
        local name = bucket .. ':' .. word
        if code == 1 and (touched[name] or (redis.call('HGET', P .. 'p:' .. bucket, word) or '') ~= value) then code = 0 end
        names[#names + 1] = name
      end
      for _ = 1, records do
        local group, field, old, new = take(), take(), take(), take()
        local key, name, ordinal = P .. 'd:' .. group, group .. '/' .. field, string.format('%.0f', group * 64 + field)
        if code == 1 and (touched[name] or (redis.call('HGET', key, field) or '') ~= old) then code = 0 end
        names[#names + 1] = name
        if old == '' then
          if code == 1 and not redis.call('ZSCORE', P .. 'free', ordinal) then code = 0 end
          write('ZREM', P .. 'free', ordinal)
        end
        if new ~= '' then
          write('HSET', key, field, new)
        else
          redis.call('EXISTS', P .. 'free')
          write('HDEL', key, field)
          write('ZADD', P .. 'free', redis.call('TIME')[1], ordinal)
        end
      end
      for _ = 1, words do
        local number, text = take(), take()
        local known = redis.call('HGET', P .. 'word', number) or added[number] ~= text and added[number]
        if code ~= 1 then
        elseif not known then
          added[number] = text
          if redis.call('HLEN', P .. 'word') >= \#(DeviceWords.countMaximum) then code = 4 end
          write('HSETNX', P .. 'word', number, text)
        elseif known ~= text then
          code = number
        end
      end
      for _ = 1, marks do
        local key, time, life = P .. take(), take(), take()
        local known = redis.call('GET', key)
        if not known or tonumber(known) < tonumber(time) then write('SET', key, time, 'EX', life) end
      end
      for _ = 1, versions do
        local text = take()
        if redis.call('SISMEMBER', P .. 'os', text) == 0 then write('SADD', P .. 'os', text) end
      end
      if code == 1 then
        for _, name in ipairs(names) do touched[name] = true end
      else
        for last = #writes, first + 1, -1 do writes[last] = nil end
      end
      codes[index] = code
    end

    local function listed(list, place, enters)
      local low, high = 0, #list / 2
      while low < high do
        local middle = math.floor((low + high) / 2)
        local a, b = string.byte(list, 2 * middle + 1, 2 * middle + 2)
        if a + 256 * b < place then low = middle + 1 else high = middle end
      end
      local bytes = string.char(place % 256, math.floor(place / 256))
      local isThere = string.sub(list, 2 * low + 1, 2 * low + 2) == bytes
      if isThere == enters then return list end
      if enters then return string.sub(list, 1, 2 * low) .. bytes .. string.sub(list, 2 * low + 1) end
      return string.sub(list, 1, 2 * low) .. string.sub(list, 2 * low + 3)
    end
    -- Bitmaps and sets that lose members: they may become smaller.
    local shrinking = {}
    local function chunks(bucket, word, digits, changes)
      local parts, order = {}, {}
      for _, change in ipairs(changes) do
        local chunk = math.floor(change[1] / \#(OrdinalChunk.count))
        if not parts[chunk] then
          parts[chunk] = {}
          order[#order + 1] = chunk
        end
        table.insert(parts[chunk], {change[1] % \#(OrdinalChunk.count), change[2]})
      end
      for _, chunk in ipairs(order) do
        local key = P .. 'c:' .. digits .. ':' .. chunk
        local length, leaves = redis.call('STRLEN', key), false
        if length == \#(OrdinalChunk.bitmapBytes) then
          for _, change in ipairs(parts[chunk]) do
            write('SETBIT', key, change[1], change[2] and 1 or 0)
            leaves = leaves or not change[2]
          end
        else
          local list = length > 0 and redis.call('GET', key) or ''
          for _, change in ipairs(parts[chunk]) do list = listed(list, change[1], change[2]) end
          if #list > 2 * \#(OrdinalChunk.listMaximum) then
            write('DEL', key)
            write('SETRANGE', key, \#(OrdinalChunk.bitmapBytes - 1), '\0')
            for place = 1, #list, 2 do
              local a, b = string.byte(list, place, place + 1)
              write('SETBIT', key, a + 256 * b, 1)
            end
          elseif list ~= '' then
            write('SET', key, list)
          else
            write('DEL', key)
            leaves = true
          end
        end
        if leaves then shrinking[#shrinking + 1] = {key, bucket, word, digits} end
      end
    end

    for first = at + 1, #ARGV, 4 do
      local bucket, word, digits, packed = P .. 'p:' .. ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
      local changes = {}
      for place = 1, #packed, 7 do
        local number, enters, ordinal = struct.unpack('<I2BI4', packed, place)
        if codes[number] == 1 then changes[#changes + 1] = {ordinal, enters == 1} end
      end
      if #changes > 0 then
        local value = redis.call('HGET', bucket, word) or ''
        if value == '*' then
          chunks(bucket, word, digits, changes)
        else
          local members, list = {}, {}
          for place = 1, #value - 3, 4 do members[struct.unpack('<I4', value, place)] = true end
          for _, change in ipairs(changes) do members[change[1]] = change[2] or nil end
          for ordinal in pairs(members) do list[#list + 1] = ordinal end
          table.sort(list)
          if #list == 0 then
            write('HDEL', bucket, word)
          elseif #list <= \#(smallMaximum) then
            for place, ordinal in ipairs(list) do list[place] = struct.pack('<I4', ordinal) end
            write('HSET', bucket, word, table.concat(list))
          else
            for place, ordinal in ipairs(list) do list[place] = {ordinal, true} end
            chunks(bucket, word, digits, list)
            write('HSET', bucket, word, '*')
          end
        end
      end
    end

    for _, command in ipairs(writes) do redis.call(unpack(command)) end

    for _, shrunk in ipairs(shrinking) do
      local key, bucket, word, digits = unpack(shrunk)
      if redis.call('STRLEN', key) == \#(OrdinalChunk.bitmapBytes) then
        local count = redis.call('BITCOUNT', key)
        if count == 0 then
          redis.call('DEL', key)
        elseif count <= \#(shrinkMaximum) then
          local bitmap, list, place = redis.call('GET', key), {}, 1
          while true do
            place = string.find(bitmap, '[^%z]', place)
            if not place then break end
            local byte = string.byte(bitmap, place)
            for bit = 0, 7 do
              if byte >= 128 then
                local member = (place - 1) * 8 + bit
                list[#list + 1] = string.char(member % 256, math.floor(member / 256))
              end
              byte = byte * 2 % 256
            end
            place = place + 1
          end
          redis.call('SET', key, table.concat(list))
        end
      end
      -- A set without members has no key at all. Where that cannot be told it stays, and is empty.
      local isEmpty = redis.call('EXISTS', key) == 0
      local chunk = math.floor((redis.call('GET', P .. 'next') or 0) / \#(OrdinalChunk.count))
      while isEmpty and chunk >= 0 do
        isEmpty = redis.pcall('EXISTS', P .. 'c:' .. digits .. ':' .. chunk) == 0
        chunk = chunk - 1
      end
      if isEmpty then redis.call('HDEL', bucket, word) end
    end
    return codes
    """#)

  /// KEYS: tag, next. ARGV: ordinals, four bytes each, little-endian. Replies the record of each, or nothing.
  static let records = LuaScript(
    #"""
    local P = KEYS[1]
    local result, group, fields = {}, nil, {}
    local function read()
      if #fields == 0 then return end
      local values = redis.call('HMGET', P .. 'd:' .. group, unpack(fields))
      for index = 1, #fields do result[#result + 1] = values[index] end
      fields = {}
    end
    for at = 1, #ARGV[1], 4 do
      local ordinal = struct.unpack('<I4', ARGV[1], at)
      if math.floor(ordinal / 64) ~= group then
        read()
        group = math.floor(ordinal / 64)
      end
      fields[#fields + 1] = ordinal % 64
    end
    read()
    return result
    """#)

  /// KEYS: tag, next. ARGV: words' numbers. Replies the word of each, or nothing.
  static let words = LuaScript("return redis.call('HMGET', KEYS[1] .. 'word', unpack(ARGV))")

  /// KEYS: tag, next. ARGV: name of a forget mark, its time (Unix ms), how long it stays (s). Of two times the later one stays.
  static let mark = LuaScript(
    """
    local key = KEYS[1] .. ARGV[1]
    local known = redis.call('GET', key)
    if not known or tonumber(known) < tonumber(ARGV[2]) then redis.call('SET', key, ARGV[2], 'EX', ARGV[3]) end
    return 0
    """)

  /// KEYS: tag, next. ARGV: bucket, word, word's digits. Replies how many devices are in a set.
  static let count = LuaScript(
    """
    local P = KEYS[1]
    local value = redis.call('HGET', P .. 'p:' .. ARGV[1], ARGV[2]) or ''
    if value ~= '*' then return #value / 4 end
    local count = 0
    for chunk = 0, math.floor((redis.call('GET', P .. 'next') or 0) / \(OrdinalChunk.count)) do
      local key = P .. 'c:' .. ARGV[3] .. ':' .. chunk
      local length = redis.call('STRLEN', key)
      count = count + (length == \(OrdinalChunk.bitmapBytes) and redis.call('BITCOUNT', key) or length / 2)
    end
    return count
    """)
}
