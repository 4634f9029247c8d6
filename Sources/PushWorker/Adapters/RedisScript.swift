/// The scripts that Redis runs: one decides all about a (job, target), one remembers a dead token.
///
/// The reply of `admit` is one value: 0 = proceed, n > 0 = over its rate for n ms, n < 0 = dead since -n (Unix ms), a bulk =
/// answered before, with the remembered outcome, a status = superseded by a newer job of its collapse id, an error = proceed, but the rate could not be charged (a replica, out of
/// memory): that is asked last, so the error also says "neither answered nor dead".
///
/// Redelivered while the first delivery is in flight: the rate's value names the last charges (see `RateState`), so the
/// second one proceeds and costs nothing. Key and charges end when the device has its whole burst again.
enum RedisScript {
  /// KEYS: answered, dead, rate, and for a rated job with a collapse id the newest delayed one. ARGV: charge (8 bytes),
  /// registered at (Unix ms or 0), interval and tolerance (µs; interval 0: no rate but what `tighten` left), and with a
  /// fourth key: first receipt (Unix ms), life of the key (ms), 1 where the job comes back from a delay.
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
    local rate = known[3]
    if interval == 0 and not rate then return 0 end
    local newest, mine
    if KEYS[4] then
      newest, mine = tonumber(redis.call('GET', KEYS[4]) or 0), tonumber(ARGV[5])
      if newest > mine and ARGV[7] == '1' then return redis.status_reply('superseded') end
    end
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local arrival = now
    local charges = ''
    if rate then
      local last = tonumber(string.sub(rate, 1, 16))
      if last and last > now then
        if string.find(rate, ARGV[1], 17, true) then return 0 end
        arrival = last
        charges = string.sub(rate, 17, 72)
      end
    end
    local wait = arrival - now - tonumber(ARGV[4])
    if newest and newest < mine and (wait > 0 or newest > 0) then redis.pcall('SET', KEYS[4], mine, 'PX', ARGV[6]) end
    if wait > 0 then return math.ceil(wait / 1000) end
    if interval == 0 then return 0 end
    arrival = arrival + interval
    local stored = redis.pcall('SET', KEYS[3], string.format('%.0f', arrival) .. ARGV[1] .. charges,
      'PX', math.ceil((arrival - now) / 1000))
    if stored.err then return stored end
    return 0
    """

  /// KEYS: rate. ARGV: so far ahead of the clock (µs). What was charged is forgotten: the refused request must wait too.
  static let tighten = """
    local time = redis.call('TIME')
    local now = time[1] * 1000000 + time[2]
    local rate = redis.call('GET', KEYS[1])
    local last = rate and tonumber(string.sub(rate, 1, 16)) or 0
    local arrival = math.max(last, now + tonumber(ARGV[1]))
    redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000))
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

  /// KEYS: dead. ARGV: mark (Unix ms), its seconds. Replies the mark that is there now.
  static let mark = """
    local mark = redis.call('GET', KEYS[1])
    if not mark or (tonumber(mark) or 0) < tonumber(ARGV[1]) then mark = ARGV[1] end
    redis.call('SET', KEYS[1], mark, 'EX', ARGV[2])
    return mark
    """
}
