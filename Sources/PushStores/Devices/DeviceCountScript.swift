import PushCore

/// Scripts that count, and that look up what is remembered of forgotten devices and users.
extension DeviceScript {
  /// KEYS: tag, next. ARGV: a mark's subject. Replies its time (Unix ms), or nil.
  static let marked = LuaScript(
    """
    local P = KEYS[1]
    local secret = redis.call('GET', P .. 'secret')
    -- The build before named the subject in its marks.
    local older = redis.call('GET', P .. 'forgotten:' .. ARGV[1])
    local time = secret and redis.call('GET', P .. 'forgotten:' .. redis.sha1hex(secret .. ARGV[1]))
    if time and older then return string.format('%.0f', math.max(tonumber(time), tonumber(older))) end
    return time or older
    """)

  /// KEYS: tag, next. ARGV: a user's subject, since when it counts (Unix s), offset, count. Replies entries of devices that were the user's.
  static let former = LuaScript(
    """
    local P = KEYS[1]
    local secret = redis.call('GET', P .. 'secret')
    if not secret then return {} end
    local key = P .. 'former:' .. redis.sha1hex(secret .. ARGV[1])
    return redis.call('ZRANGEBYSCORE', key, ARGV[2], '+inf', 'LIMIT', ARGV[3], ARGV[4])
    """)

  /// KEYS: tag, next. ARGV: bucket, word, word's digits. Replies the number of devices in a set.
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
