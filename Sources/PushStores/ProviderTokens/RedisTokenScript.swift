/// The scripts with which a fleet shares one provider token for a key. They run rarely, so their text is sent each
/// time.
///
/// The token's value: `iat` (Unix seconds, 10 digits), its creation time by Redis' clock (10 digits), the token. The
/// lock's value is its owner's name. Both keys share one hash tag, and both expire.
///
/// A token whose `iat` is ahead of Redis' clock by more than the gap comes from a worker with a wrong clock. APNs
/// refuses it until that time, so a token with an earlier `iat` may replace it.
enum RedisTokenScript {
  /// KEYS: token, lock. ARGV: newer than this `iat`, renewal age (s), gap between tokens (s), our owner name, lock
  /// (ms).
  ///
  /// Replies a token that is usable, or too young to be replaced; 1 = the lock is ours and there is no token; 2 = the
  /// lock is ours, to replace an older token; 0 = another owner holds the lock.
  static let look = """
    local known = redis.call('GET', KEYS[1])
    if known then
      local now, issued = redis.call('TIME')[1], tonumber(string.sub(known, 1, 10))
      local age = now - tonumber(string.sub(known, 11, 20))
      local suits = issued > tonumber(ARGV[1]) and issued <= now + ARGV[3] and age < tonumber(ARGV[2])
      if suits or age < tonumber(ARGV[3]) then
        if redis.call('GET', KEYS[2]) == ARGV[4] then redis.pcall('DEL', KEYS[2]) end
        return string.sub(known, 21)
      end
    end
    local holder = redis.call('GET', KEYS[2])
    if holder and holder ~= ARGV[4] then return 0 end
    if holder then redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
    elseif not redis.call('SET', KEYS[2], ARGV[4], 'NX', 'PX', ARGV[5]) then return 0 end
    return known and 2 or 1
    """

  /// KEYS: token, lock. ARGV: our owner name, `iat`, gap (s), life (s), token. A fence: an owner that lost the lock
  /// stores nothing, `iat` only grows unless it was ahead, and tokens keep the gap.
  ///
  /// Replies the token in use now; 0 = the lock was lost.
  static let store = """
    if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
    local known = redis.call('GET', KEYS[1])
    local now = redis.call('TIME')[1]
    local issued = known and tonumber(string.sub(known, 1, 10))
    if known and (issued <= now + ARGV[3] and tonumber(ARGV[2]) <= issued
        or now - tonumber(string.sub(known, 11, 20)) < tonumber(ARGV[3])) then
      redis.call('DEL', KEYS[2])
      return string.sub(known, 21)
    end
    redis.call('SET', KEYS[1], string.format('%010d%010d', ARGV[2], now) .. ARGV[5], 'EX', ARGV[4])
    redis.call('DEL', KEYS[2])
    return ARGV[5]
    """

  /// KEYS: token. ARGV: `iat`, age (s), life (s), gap (s), token. Stores a token in use again if Redis lost it.
  ///
  /// Replies the stored token if it is another one; 0 if it is this one.
  static let keep = """
    local known = redis.call('GET', KEYS[1])
    local issued = known and tonumber(string.sub(known, 1, 10)) or 0
    local now = redis.call('TIME')[1]
    local ahead = known and tonumber(ARGV[1]) > now + ARGV[4]
    if issued > tonumber(ARGV[1]) or ahead and issued < tonumber(ARGV[1]) then return string.sub(known, 21) end
    local life = tonumber(ARGV[3]) - tonumber(ARGV[2])
    if issued < tonumber(ARGV[1]) and life > 0 then
      redis.call('SET', KEYS[1], string.format('%010d%010d', ARGV[1], now - ARGV[2]) .. ARGV[5], 'EX', life)
    end
    return 0
    """

  /// KEYS: lock. ARGV: our owner name. Compare and delete.
  static let release = """
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0
    """
}
