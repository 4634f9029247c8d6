/// The scripts by which a fleet keeps activities. They know bytes only: what they mean is decided by workers, who read, decide, and store where
/// nobody changed meanwhile what they read.
///
/// All keys of a script have one hash tag. Each is read before the first write: where a cluster is moving the slot, a key that is not here
/// ends the script before it changed anything.
enum ActivityScript {
  /// KEYS: hashes. ARGV: for each value the number of its key, and its field.
  ///
  /// Replies the values.
  static let read = LuaScript(
    """
    local values = {}
    for at = 1, #ARGV, 2 do values[#values + 1] = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1]) end
    return values
    """)

  /// KEYS: index, chunks, the activity's hash, hashes of members. ARGV:
  /// - id, time in the index (empty: it is there), the time up to which others leave the index, when the keys end (Unix ms);
  /// - number of chunks, each;
  /// - number of compared fields; for each the number of its key, the field, its value as it was read (empty: none), its new one
  ///   (empty: none);
  /// - written fields; for each the number of its key, the field, its value.
  ///
  /// Replies 1 = stored, 0 = something is not as it was read: nothing is changed.
  static let commit = LuaScript(
    """
    local at = 5
    local chunks = {}
    for index = 1, tonumber(ARGV[5]) do chunks[index] = ARGV[at + index] end
    at = at + #chunks + 1
    local first = at + 1
    local last = at + 4 * tonumber(ARGV[at])
    for at = first, last, 4 do
      local value = redis.call('HGET', KEYS[tonumber(ARGV[at])], ARGV[at + 1]) or ''
      if value ~= ARGV[at + 2] then return 0 end
    end
    redis.call('EXISTS', KEYS[1], KEYS[2])
    for at = first, last, 4 do
      local key, field, old, new = KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
      if new == '' then redis.call('HDEL', key, field) elseif new ~= old then redis.call('HSET', key, field, new) end
    end
    for at = last + 1, #ARGV, 3 do redis.call('HSET', KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2]) end
    if #chunks > 0 then redis.call('SADD', KEYS[2], unpack(chunks)) end
    if ARGV[2] ~= '' then
      redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
      redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[3])
    end
    for index = 2, #KEYS do redis.call('PEXPIREAT', KEYS[index], ARGV[4]) end
    return 1
    """)

  /// KEYS: hashes of live members. ARGV: how many are wanted.
  ///
  /// Replies the fields of each, up to the one by which they are enough.
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
