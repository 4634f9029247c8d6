import PushCore

/// The scripts that keep one registry of devices for a fleet. They treat records and sets as bytes. Workers interpret
/// records: they read one, build a new one, and store it if nobody changed it meanwhile.
///
/// All keys begin with KEYS[1]. The scripts build the keys of sets and records from it, because a worker does not know
/// them before it has read. KEYS[1] is not a key itself: while a cluster migrates the slot, it refuses a script that
/// has a missing and another key, until the migration is complete.
enum DeviceScript {
  /// A set with more members is stored in chunks.
  static let smallMaximum = 15
  /// A bitmap with at most this many members becomes a list again.
  static let shrinkMaximum = 256

  /// KEYS: tag, next. ARGV: rest of freed ordinals (s), then for each device: bucket and word of its id (empty: skip),
  /// an ordinal (or empty), whether to allocate a new ordinal: 0 never, 1 if the id has none, 2 always; the number of
  /// tokens, bucket and word of each.
  ///
  /// Replies for each device: {the id's ordinals, their records…}, the ordinal's record, the new ordinal, and for each
  /// token {its ordinals, their records…}: without records, where the ordinals are those of the id. A record that the
  /// reply has already is 1: one device may hold all tokens.
  static let find = LuaScript(
    #"""
    local P = KEYS[1]
    local sent = {}
    local function record(ordinal)
      if sent[ordinal] then return 1 end
      sent[ordinal] = true
      return redis.call('HGET', P .. 'd:' .. math.floor(ordinal / 64), ordinal % 64)
    end
    local function found(bucket, word, known)
      if bucket == '' then return false end
      local value = redis.call('HGET', P .. 'p:' .. bucket, word) or ''
      local result = {value}
      if value == known then return result end
      for at = 1, #value - 3, 4 do result[#result + 1] = record(struct.unpack('<I4', value, at)) end
      return result
    end
    local result, wanted, at = {}, {}, 2
    while at < #ARGV do
      local ids = found(ARGV[at], ARGV[at + 1])
      local own = ARGV[at + 2] ~= '' and record(tonumber(ARGV[at + 2]))
      local item = {ids, own, false}
      if ARGV[at + 3] == '2' or ARGV[at + 3] == '1' and ids[1] == '' then wanted[#wanted + 1] = item end
      local count = tonumber(ARGV[at + 4])
      for token = 1, count do
        item[3 + token] = found(ARGV[at + 3 + 2 * token], ARGV[at + 4 + 2 * token], ids and ids[1])
      end
      result[#result + 1] = item
      at = at + 5 + 2 * count
    end
    if #wanted > 0 then
      local time = redis.call('TIME')
      local now = tonumber(time[1])
      redis.call('SET', P .. 'epoch', string.format('%.0f', now * 1000000 + time[2]), 'NX')
      local rested = redis.call('ZRANGEBYSCORE', P .. 'free', '-inf', now - ARGV[1], 'LIMIT', 0, #wanted)
      local last = #rested < #wanted and redis.call('INCRBY', P .. 'next', #wanted - #rested)
      local given = {}
      for index, item in ipairs(wanted) do
        item[3] = tonumber(rested[index]) or last - #wanted + index - 1
        given[2 * index - 1], given[2 * index] = now, string.format('%.0f', item[3])
      end
      redis.call('ZADD', P .. 'free', unpack(given))
    end
    return result
    """#)

  /// Whether a mark is not older than a change (Unix ms). One from a clock that was ahead is, for what comes now.
  private static let isLater = """
    local clock = redis.call('TIME')
    local function is_later(mark, at)
      local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
      local is_now = math.abs(now - at) < \(DeviceLimits.aheadToleranceMilliseconds)
      return mark >= at and (not is_now or mark <= now + \(DeviceLimits.aheadToleranceMilliseconds))
    end
    """

  /// KEYS: tag, next. ARGV: a secret for forget marks, used if there is none; the numbers of forget marks, tokens' marks,
  /// words and OS versions; each
  /// - mark, those of tokens behind the others: its subject,
  /// - word: number, text,
  /// - OS version: its text;
  /// then the number of changes; each with its numbers of forget marks, claims, guards, records, new forget marks, new
  /// tokens' marks and former users, the registration's time and its device's subject, and each
  /// - forget mark: its index, since when and until when the device was the user's; -1: it is the device's. One that is not older than the
  ///   registration cancels the change, a user's only if it is of that time, and then it forgets the device too;
  /// - claim: the index of a token's mark: one that is another device's, and not older, stops the change;
  /// - guard: a set's bucket and word, its ordinals as read;
  /// - record: hash, field, its bytes as read (empty: none), its new bytes (empty: none);
  /// - mark: its subject, its time, its TTL (s), for a token also its device's subject;
  /// - former user: the subject, the device's entry, its TTL (s).
  /// Then for each set: bucket, word, word's digits, number of chunks; for each chunk its number, and four bytes for
  /// each change: the change's index, 1 = enters or 0 = leaves, place (two bytes).
  ///
  /// Replies for each change: 1 = stored, 0 = conflict, 2 = forgotten, negative = forgotten with its device, the negated
  /// time of the mark; or a list of the claims that marks stop. A change that is not stored has no effect. If a word's number belongs to another word, replies that number; if the word
  /// table is full, replies an empty string. In both cases nothing is stored.
  static let commit = LuaScript(
    #"""
    local P = KEYS[1]
    local at = 0
    local function take()
      at = at + 1
      return ARGV[at]
    end
    local secret = redis.call('GET', P .. 'secret')
    local drawn = take()
    local function mark(subject) return P .. 'forgotten:' .. redis.sha1hex((secret or drawn) .. subject) end
    local function former_key(subject) return P .. 'former:' .. redis.sha1hex((secret or drawn) .. subject) end
    local function owner(subject) return string.sub(redis.sha1hex((secret or drawn) .. subject), 1, 8) end
    \#(isLater)
    local marked, tokens, words, versions = tonumber(take()), tonumber(take()), tonumber(take()), tonumber(take())
    local codes, writes, touched, values, taken = {}, {}, {}, {}, {'ZREM', P .. 'free'}
    local function write(...) writes[#writes + 1] = {...} end

    local times, names = {}, {}
    for index = 1, marked do
      local subject = take()
      -- The build before named the subject in its marks.
      names[index] = P .. 'forgotten:' .. subject
      if secret then names[marked + index] = mark(subject) end
    end
    if marked > 0 then
      local found = redis.call('MGET', unpack(names))
      for index = 1, marked do
        times[index] = math.max(tonumber(found[index] or 0), tonumber(found[marked + index] or 0))
      end
    end
    local given = {}
    for index = 1, tokens do
      local subject = take()
      given[index] = secret and redis.call('GET', mark(subject))
    end
    local added = {}
    for _ = 1, words do
      local number, text = take(), take()
      local known = redis.call('HGET', P .. 'word', number)
      if not known then
        added[#added + 1] = number
        added[#added + 1] = text
      elseif known ~= text then
        return number
      end
    end
    if #added > 0 and redis.call('HLEN', P .. 'word') + #added / 2 > \#(DeviceWords.countMaximum) then return '' end
    -- Lua unpacks fewer than 8,000 values at a time.
    for first = 1, #added, 1000 do
      write('HSET', P .. 'word', unpack(added, first, math.min(first + 999, #added)))
    end
    if versions > 0 then
      local seen = {'SADD', P .. 'os'}
      for index = 1, versions do seen[index + 2] = take() end
      writes[#writes + 1] = seen
    end

    for index = 1, tonumber(take()) do
      local forgotten, claims, guards = tonumber(take()), tonumber(take()), tonumber(take())
      local records, marks, surrendered, former = tonumber(take()), tonumber(take()), tonumber(take()), tonumber(take())
      local registered, claimant = tonumber(take()), take()
      local code, names, first, firstTaken = 1, {}, #writes, #taken
      for _ = 1, forgotten do
        local time, since, till = times[tonumber(take())], tonumber(take()), tonumber(take())
        if time > 0 and is_later(time, registered) then
          if time >= since and time < till then code = math.min(code, -time) end
          if till < 0 and code == 1 then code = 2 end
        end
      end
      local stopped = {}
      for claim = 1, claims do
        local value = given[tonumber(take())]
        if value and is_later(tonumber(string.sub(value, 9)), registered) and string.sub(value, 1, 8) ~= owner(claimant) then
          stopped[#stopped + 1] = claim
        end
      end
      if code == 1 and #stopped > 0 then code = stopped end
      for _ = 1, guards do
        local bucket, word, value = take(), take(), take()
        local name = bucket .. ':' .. word
        values[name] = values[name] or redis.call('HGET', P .. 'p:' .. bucket, word) or ''
        if code == 1 and (touched[name] or values[name] ~= value) then code = 0 end
        names[#names + 1] = name
      end
      for _ = 1, records do
        local group, field, old, new = take(), take(), take(), take()
        local key, name, ordinal = P .. 'd:' .. group, group .. '/' .. field, string.format('%.0f', group * 64 + field)
        if code == 1 and (touched[name] or (redis.call('HGET', key, field) or '') ~= old) then code = 0 end
        names[#names + 1] = name
        if old == '' then
          if code == 1 and not redis.call('ZSCORE', P .. 'free', ordinal) then code = 0 end
          taken[#taken + 1] = ordinal
        end
        if new ~= '' then
          write('HSET', key, field, new)
        else
          write('HDEL', key, field)
          write('ZADD', P .. 'free', clock[1], ordinal)
        end
      end
      for _ = 1, marks do
        local key, time, life = mark(take()), take(), take()
        local known = redis.call('GET', key)
        if not known or not is_later(tonumber(known), tonumber(time)) then
          write('SET', P .. 'secret', secret or drawn, 'EX', life)
          write('SET', key, time, 'EX', life)
        end
      end
      for _ = 1, surrendered do
        local key, time, life, by = mark(take()), take(), take(), owner(take())
        local known = redis.call('GET', key)
        if not known or not is_later(tonumber(string.sub(known, 9)), tonumber(time)) then
          write('SET', P .. 'secret', secret or drawn, 'EX', life)
          write('SET', key, by .. time, 'EX', life)
        end
      end
      for _ = 1, former do
        local key, entry, life = former_key(take()), take(), take()
        write('SET', P .. 'secret', secret or drawn, 'EX', life)
        -- An hour more than it counts: no page of them moves while they are read.
        write('ZREMRANGEBYSCORE', key, '-inf', clock[1] - life - 3600)
        write('ZADD', key, clock[1], entry)
        write('EXPIRE', key, life)
      end
      if code == 1 then
        for _, name in ipairs(names) do touched[name] = true end
      else
        for last = #writes, first + 1, -1 do writes[last] = nil end
        for last = #taken, firstTaken + 1, -1 do taken[last] = nil end
      end
      codes[index] = code
    end
    if #taken > 2 then writes[#writes + 1] = taken end

    local function listed(list, place, enters)
      -- Most that enter are new, and have the highest ordinal.
      local a, b = string.byte(list, -2, -1)
      if not a or a + 256 * b < place then
        return enters and list .. string.char(place % 256, math.floor(place / 256)) or list
      end
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
    -- Chunks that lose members: they may become smaller.
    local shrinking = {}
    -- Redis writes each number that it is given: the few places of these devices once, not for each of their sets.
    local texts = {}
    local function text(number)
      texts[number] = texts[number] or string.format('%d', number)
      return texts[number]
    end
    local bits = {[0] = 128, 64, 32, 16, 8, 4, 2, 1}
    -- `part`: place, 1 or 0, and so on. `length`: of the chunk, if known.
    local function store(bucket, word, digits, chunk, part, count, length)
      local key, leaves = P .. 'c:' .. digits .. ':' .. chunk, false
      length = length or redis.call('STRLEN', key)
      if length == \#(OrdinalChunk.bitmapBytes) then
        local lowest, highest = part[1], part[1]
        for index = 1, count, 2 do
          local place = part[index]
          if place < lowest then lowest = place elseif place > highest then highest = place end
          leaves = leaves or part[index + 1] == 0
        end
        local first, last = math.floor(lowest / 8), math.floor(highest / 8)
        if count > 2 and last - first < 4 * count then
          -- New devices have adjacent places.
          local bytes = {string.byte(redis.call('GETRANGE', key, text(first), text(last)), 1, -1)}
          for index = 1, count, 2 do
            local place = part[index]
            local at, bit = math.floor(place / 8) - first + 1, bits[place % 8]
            bytes[at] = bytes[at] + (part[index + 1] - math.floor(bytes[at] / bit) % 2) * bit
          end
          write('SETRANGE', key, text(first), string.char(unpack(bytes)))
        else
          local command, last = {'BITFIELD', key}, 2
          for index = 1, count, 2 do
            command[last + 1], command[last + 2] = 'SET', 'u1'
            command[last + 3], command[last + 4] = text(part[index]), part[index + 1] == 1 and '1' or '0'
            last = last + 4
          end
          writes[#writes + 1] = command
        end
      else
        local list = length > 0 and redis.call('GET', key) or ''
        for index = 1, count, 2 do list = listed(list, part[index], part[index + 1] == 1) end
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
    -- `changes`: ordinal, 1 or 0, and so on.
    local function small(bucket, word, digits, value, changes)
      local members, list = {}, {}
      for place = 1, #value - 3, 4 do members[struct.unpack('<I4', value, place)] = true end
      for index = 1, #changes, 2 do members[changes[index]] = changes[index + 1] == 1 or nil end
      for ordinal in pairs(members) do list[#list + 1] = ordinal end
      table.sort(list)
      if #list == 0 then
        write('HDEL', bucket, word)
      elseif #list <= \#(smallMaximum) then
        write('HSET', bucket, word, struct.pack('<' .. string.rep('I4', #list), unpack(list)))
      else
        local parts = {}
        for _, ordinal in ipairs(list) do
          local chunk = math.floor(ordinal / \#(OrdinalChunk.count))
          local part = parts[chunk] or {}
          parts[chunk] = part
          part[#part + 1] = ordinal - chunk * \#(OrdinalChunk.count)
          part[#part + 1] = 1
        end
        for chunk, part in pairs(parts) do store(bucket, word, digits, chunk, part, #part) end
        write('HSET', bucket, word, '*')
      end
    end

    while at < #ARGV do
      local own, word, digits, count = take(), take(), take(), tonumber(take())
      local bucket, name = P .. 'p:' .. own, own .. ':' .. word
      local value, length = values[name]
      local changes = {}
      for _ = 1, count do
        local chunk, packed = take(), take()
        local part, last = {}, 0
        local all = {struct.unpack('<' .. string.rep('BBI2', #packed / 4), packed)}
        for index = 1, #packed / 4 * 3, 3 do
          if codes[all[index]] == 1 then
            part[last + 1], part[last + 2] = all[index + 2], all[index + 1]
            last = last + 2
          end
        end
        length = nil
        if not value then
          -- What several devices have in common is likely a large set: then its chunk is enough.
          if last > 2 then length = redis.call('STRLEN', P .. 'c:' .. digits .. ':' .. chunk) end
          value = (length or 0) > 0 and '*' or redis.call('HGET', bucket, word) or ''
        end
        if value == '*' then
          if last > 0 then store(bucket, word, digits, chunk, part, last, length) end
        else
          for index = 1, last, 2 do
            changes[#changes + 1] = part[index] + chunk * \#(OrdinalChunk.count)
            changes[#changes + 1] = part[index + 1]
          end
        end
      end
      if value == '' and #changes == 2 and changes[2] == 1 then
        write('HSET', bucket, word, struct.pack('<I4', changes[1]))
      elseif #changes > 0 then
        small(bucket, word, digits, value, changes)
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

  /// KEYS: tag, next. ARGV: ordinals, four bytes each, little-endian, their epoch (empty: any). Replies the record of
  /// each, or nil. Ordinals of another epoch have no records.
  static let records = LuaScript(
    #"""
    local P = KEYS[1]
    local result, group, fields = {}, nil, {}
    if ARGV[2] ~= '' and redis.call('GET', P .. 'epoch') ~= ARGV[2] then
      for index = 1, #ARGV[1] / 4 do result[index] = false end
      return result
    end
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

  /// KEYS: tag, next. ARGV: ordinals, four bytes each, little-endian. Replies the fingerprints of their devices in the same
  /// form: 0 for a record of the first version, which has none. Where there is no device, the largest number: 0 would be that of whoever has
  /// the ordinal next.
  static let fingerprints = LuaScript(
    #"""
    local P = KEYS[1]
    local result, group, fields = {}, nil, {}
    local function read()
      if #fields == 0 then return end
      local values = redis.call('HMGET', P .. 'd:' .. group, unpack(fields))
      for index = 1, #fields do
        local record = values[index]
        if not record then
          result[#result + 1] = '\255\255\255\255'
        else
          local isKnown = string.byte(record) ~= \#(DeviceRecord.versionWithoutTimes)
          result[#result + 1] = isKnown and string.sub(record, 2, 5) or '\0\0\0\0'
        end
      end
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
    return table.concat(result)
    """#)

  /// KEYS: tag, next. ARGV: words' numbers, fewer than 8,000: Lua unpacks no more. Replies the word of each, or nil.
  static let words = LuaScript("return redis.call('HMGET', KEYS[1] .. 'word', unpack(ARGV))")

  /// KEYS: tag, next. ARGV: a secret for forget marks, used if there is none; a mark's subject, its time (Unix ms), its
  /// TTL (s). The later time wins. The secret lives as long as the last mark.
  static let mark = LuaScript(
    """
    local P = KEYS[1]
    local secret = redis.call('GET', P .. 'secret') or ARGV[1]
    local key = P .. 'forgotten:' .. redis.sha1hex(secret .. ARGV[2])
    \(isLater)
    local known = redis.call('GET', key)
    if not known or not is_later(tonumber(known), tonumber(ARGV[3])) then
      redis.call('SET', P .. 'secret', secret, 'EX', ARGV[4])
      redis.call('SET', key, ARGV[3], 'EX', ARGV[4])
    end
    return 0
    """)
}
