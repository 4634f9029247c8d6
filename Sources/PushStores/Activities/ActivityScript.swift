/// The scripts that store activities for a fleet. They treat values as bytes. Workers interpret them: they read,
/// decide, and store if nobody changed the values meanwhile.
///
/// All keys of a script share one hash tag. Each key is read before the first write: while a cluster migrates the slot,
/// a missing key stops the script before it changes anything.
enum ActivityScript {
  /// KEYS: hashes. ARGV: for each value the index of its key, and its field.
  ///
  /// Replies the values.
  static let read = LuaScript(
    """
    local values = {}
    for at = 1, #ARGV, 2 do values[#values + 1] = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1]) end
    return values
    """)

  /// KEYS: index, chunks, the activity's hash, hashes of members, perhaps of a token's holder, the memberships of devices that
  /// become members, those of devices that stop being members. ARGV:
  /// - id, time in the index (empty: already there), the time up to which others are removed from the index, when the
  ///   keys expire (Unix ms), how many devices become members, how many stop;
  /// - number of chunks, each;
  /// - number of compared fields; for each the index of its key, the field, its value as read (empty: none), its new
  ///   value (empty: none);
  /// - written fields; for each the index of its key, the field, its value.
  ///
  /// Replies 1 = stored, 0 = conflict: nothing is changed.
  static let commit = LuaScript(
    """
    local id, expiry, joined = ARGV[1], ARGV[4], #KEYS - tonumber(ARGV[5]) - tonumber(ARGV[6])
    local at = 7
    local chunks = {}
    for index = 1, tonumber(ARGV[7]) do chunks[index] = ARGV[at + index] end
    at = at + #chunks + 1
    local first = at + 1
    local last = at + 4 * tonumber(ARGV[at])
    for at = first, last, 4 do
      local value = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1]) or ''
      if value ~= ARGV[at + 2] then return 0 end
    end
    redis.call('EXISTS', unpack(KEYS))
    for at = first, last, 4 do
      local key, field, old, new = KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
      if new == '' then redis.call('HDEL', key, field) elseif new ~= old then redis.call('HSET', key, field, new) end
    end
    for at = last + 1, #ARGV, 3 do redis.call('HSET', KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2]) end
    if #chunks > 0 then redis.call('SADD', KEYS[2], unpack(chunks)) end
    if ARGV[2] ~= '' then
      redis.call('ZADD', KEYS[1], ARGV[2], id)
      redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
    end
    for index = 2, joined do redis.call('PEXPIREAT', KEYS[index], expiry) end
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    for index = joined + 1, joined + tonumber(ARGV[5]) do
      redis.call('ZREMRANGEBYSCORE', KEYS[index], '-inf', string.format('%.0f', now))
      redis.call('ZADD', KEYS[index], expiry, id)
      if redis.call('PTTL', KEYS[index]) < expiry - now then redis.call('PEXPIREAT', KEYS[index], expiry) end
    end
    for index = joined + tonumber(ARGV[5]) + 1, #KEYS do redis.call('ZREM', KEYS[index], id) end
    return 1
    """)

  /// KEYS: memberships of devices. ARGV: how many of each, from which on.
  ///
  /// Replies the ids of activities, for each device.
  static let memberships = LuaScript(
    """
    local lists = {}
    for index = 1, #KEYS do lists[index] = redis.call('ZRANGE', KEYS[index], ARGV[2], ARGV[2] + ARGV[1] - 1) end
    return lists
    """)

  /// KEYS: a device's memberships, then the two hashes of members of each activity that it leaves. ARGV: its place in its
  /// chunk, the activities' ids.
  static let forget = LuaScript(
    """
    redis.call('EXISTS', unpack(KEYS))
    for index = 2, #KEYS do redis.call('HDEL', KEYS[index], ARGV[1]) end
    redis.call('ZREM', KEYS[1], unpack(ARGV, 2))
    return 0
    """)

  /// KEYS: hashes of live members. ARGV: the number of wanted members.
  ///
  /// Replies the fields of each hash, up to the one that completes this number.
  static let places = LuaScript(
    """
    local lists, count = {}, 0
    for index = 1, #KEYS do
      lists[index] = redis.call('HKEYS', KEYS[index])
      count = count + #lists[index]
      if count >= tonumber(ARGV[1]) then break end
    end
    return lists
    """)
}
