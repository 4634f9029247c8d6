/// The scripts with which a fleet shares one provider token for a key. They run rarely, so their text is sent each
/// time.
///
/// The token's value: `iat` (Unix seconds, 10 digits), its creation time by Redis' clock (10 digits), the token. The
/// lock's value is its owner's name. The mark's value is the `iat` of a token that APNs never took because of it: such a
/// token may be replaced at once, and no other one is marked for 20 minutes. All keys share one hash tag, and expire.
///
/// A token whose `iat` is ahead of APNs' clock by more than the gap comes from a worker with a wrong clock. APNs
/// refuses it until that time, so a token with an earlier `iat` may replace it. A worker that knows APNs' time tells it;
/// else Redis' own stands for it.
enum RedisTokenScript {
  /// KEYS: token, lock, mark. ARGV: newer than this `iat`, renewal age (s), gap between tokens (s), our owner name, lock
  /// (ms), `iat` to mark or 0, APNs' time (s) or 0.
  ///
  /// Replies a token that is usable, or too young to be replaced; 1 = the lock is ours and there is no token; 2 = the
  /// lock is ours, to replace an older token; 0 = another owner holds the lock.
  static let look = """
    local known = redis.call('GET', KEYS[1])
    local holder = redis.call('GET', KEYS[2])
    local mark = tonumber(redis.call('GET', KEYS[3]) or ARGV[6])
    local now, apns = redis.call('TIME')[1], tonumber(ARGV[7])
    if apns == 0 then apns = now end
    local issued = known and tonumber(string.sub(known, 1, 10))
    if ARGV[6] ~= '0' then redis.call('SET', KEYS[3], mark, 'EX', ARGV[3], 'NX') end
    if known and issued ~= mark then
      local age = now - tonumber(string.sub(known, 11, 20))
      local suits = issued > tonumber(ARGV[1]) and issued <= apns + ARGV[3] and age < tonumber(ARGV[2])
      if suits or age < tonumber(ARGV[3]) then
        if holder == ARGV[4] then redis.pcall('DEL', KEYS[2]) end
        return string.sub(known, 21)
      end
    end
    if holder and holder ~= ARGV[4] then return 0 end
    redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
    return known and 2 or 1
    """

  /// KEYS: token, lock, mark. ARGV: our owner name, `iat`, gap (s), life (s), APNs' time (s) or 0, token. A
  /// fence: an owner that lost the lock stores nothing, `iat` only grows unless it was ahead, and tokens keep the gap
  /// unless APNs never took the older one.
  ///
  /// Replies the token in use now; 0 = the lock was lost.
  static let store = """
    if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
    local known = redis.call('GET', KEYS[1])
    local mark = tonumber(redis.call('GET', KEYS[3]) or 0)
    local now, apns = redis.call('TIME')[1], tonumber(ARGV[5])
    if apns == 0 then apns = now end
    local issued = known and tonumber(string.sub(known, 1, 10))
    if known and issued ~= mark and (issued <= apns + ARGV[3] and tonumber(ARGV[2]) <= issued
        or now - tonumber(string.sub(known, 11, 20)) < tonumber(ARGV[3])) then
      redis.call('DEL', KEYS[2])
      return string.sub(known, 21)
    end
    redis.call('SET', KEYS[1], string.format('%010d%010d', ARGV[2], now) .. ARGV[6], 'EX', ARGV[4])
    redis.call('DEL', KEYS[2])
    return ARGV[6]
    """

  /// KEYS: token, mark. ARGV: `iat`, age (s), life (s), gap (s), APNs' time (s) or 0, token. Stores a token
  /// in use again if Redis lost it.
  ///
  /// Replies the stored token if it is another one, in an array if ours is one that APNs never took; 0 if it is this one.
  static let keep = """
    local known = redis.call('GET', KEYS[1])
    local mark = tonumber(redis.call('GET', KEYS[2]) or 0)
    local issued, own = known and tonumber(string.sub(known, 1, 10)) or 0, tonumber(ARGV[1])
    if own == mark then
      if issued ~= 0 and issued ~= mark then return {string.sub(known, 21)} end
      return 0
    end
    if issued == mark then issued = 0 end
    local now, apns = redis.call('TIME')[1], tonumber(ARGV[5])
    if apns == 0 then apns = now end
    local ahead = issued ~= 0 and own > apns + ARGV[4]
    if issued > own or ahead and issued < own then return string.sub(known, 21) end
    local life = tonumber(ARGV[3]) - tonumber(ARGV[2])
    if issued < own and life > 0 then
      redis.call('SET', KEYS[1], string.format('%010d%010d', own, now - ARGV[2]) .. ARGV[6], 'EX', life)
    end
    return 0
    """

  /// KEYS: lock. ARGV: our owner name. Compare and delete.
  static let release = """
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0
    """
}
