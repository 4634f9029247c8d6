/// The scripts that Redis runs: one decides all about a (job, target), one remembers a dead token.
///
/// The reply of `admit` is one value: 0 = proceed, n > 0 = over its rate for n ms, n < 0 = dead since -n (Unix ms), a bulk =
/// answered before, with the remembered outcome, an error = proceed, but the rate could not be charged (a replica, out of
/// memory): that is asked last, so the error also says "neither answered nor dead".
///
/// Redelivered while the first delivery is in flight: the rate's value names the last charges (see `RateState`), so the
/// second one proceeds and costs nothing. Key and charges end when the device has its whole burst again.
enum RedisScript {
  /// KEYS: answered, dead, rate. ARGV: charge (8 bytes), registered at (Unix ms or 0), interval and tolerance (µs;
  /// interval 0: no rate).
  ///
  /// The rate's value: theoretical arrival in Unix µs, 16 digits, then charges of 8 bytes, the last one first.
  static let admit = """
    local known = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
    if known[1] then return known[1] end
    if known[2] then
      local mark = tonumber(known[2])
      if mark and tonumber(ARGV[2]) <= mark then return -mark end
      redis.pcall('DEL', KEYS[2])
    end
    local interval = tonumber(ARGV[3])
    if interval == 0 then return 0 end
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local arrival = now
    local charges = ''
    local rate = known[3]
    if rate then
      local last = tonumber(string.sub(rate, 1, 16))
      if last and last > now then
        if string.find(rate, ARGV[1], 17, true) then return 0 end
        arrival = last
        charges = string.sub(rate, 17, 72)
      end
    end
    local wait = arrival - now - tonumber(ARGV[4])
    if wait > 0 then return math.ceil(wait / 1000) end
    arrival = arrival + interval
    local stored = redis.pcall('SET', KEYS[3], string.format('%.0f', arrival) .. ARGV[1] .. charges,
      'PX', math.ceil((arrival - now) / 1000))
    if stored.err then return stored end
    return 0
    """

  /// KEYS: answered, dead. ARGV: outcome, its seconds, mark (Unix ms), its seconds. Of two marks the later one stays.
  static let bury = """
    redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
    local mark = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
    if mark < tonumber(ARGV[3]) then redis.call('SET', KEYS[2], ARGV[3], 'EX', ARGV[4])
    else redis.call('EXPIRE', KEYS[2], ARGV[4]) end
    return 0
    """
}
