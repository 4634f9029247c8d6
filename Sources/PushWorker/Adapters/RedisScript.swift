/// The scripts that Redis runs: one decides all about (job, target)s, one remembers a dead token.
///
/// Redelivered while the first delivery is in flight: the rate's value names the last charges (see `RateState`), so the
/// second one proceeds and costs nothing. Key and charges end when the device has its whole burst again.
enum RedisScript {
  /// Admits what a turn of the lane asks for, in one call: the call itself costs Redis as much as a write.
  ///
  /// KEYS: a device each, `<prefix>{<device>}`, to which the script adds what its keys end with. ARGV: an ask each, then the
  /// settings (`RedisAdmissions` writes both). An ask: the rate's number (1 byte, 255: none), charge (8), registered at (Unix
  /// ms), the text of the apns-id (22), and of a rated job with a collapse id its hash (8), first receipt (Unix ms), 1 where
  /// the job comes back from a delay (1 byte). Settings: life of a collapse key (ms), then interval and tolerance of each rate
  /// (µs; interval 0: no rate but what `tighten` left). Numbers are little-endian doubles.
  ///
  /// The reply is 0 where all proceed; else a list with an answer for each: 0 = proceed, n > 0 = over its rate for n ms, n < 0 =
  /// dead since -n (Unix ms), a bulk = answered before, with the remembered outcome, a status = superseded by a newer job of
  /// its collapse id, an error = proceed, but the rate could not be charged (a replica, out of memory): that is asked last, so the
  /// error also says "neither answered nor dead".
  ///
  /// The rate's value: theoretical arrival in Unix µs, 16 digits, then charges of 8 bytes, the last one first.
  static let admit = """
    local call, pcall, byte, find, sub, unpack =
      redis.call, redis.pcall, string.byte, string.find, string.sub, struct.unpack
    local settings = ARGV[#KEYS + 1]
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    local rates = {}

    local function rate(number)
      local interval, tolerance = unpack('<dd', settings, 9 + number * 16)
      local known = {
        interval = interval, tolerance = tolerance, suffix = number == 0 and ':r' or ':r' .. number,
        first = string.format('%.0f', now + interval), life = string.format('%.0f', math.ceil(interval / 1000))}
      rates[number] = known
      return known
    end

    local function charge(device, ask, rate)
      local key = device .. rate.suffix
      local value = call('GET', key)
      local collapsed, first, newest
      if #ask > 39 then
        collapsed, first = device .. ':c' .. sub(ask, 40, 47), unpack('<d', ask, 48)
        newest = call('GET', collapsed)
        newest = newest and tonumber(newest)
        if newest and newest > first and byte(ask, 56) == 1 then return redis.status_reply('superseded') end
      end
      local ahead, mine, charges = 0, sub(ask, 2, 9), ''
      local arrival = value and tonumber(sub(value, 1, 16))
      if arrival and arrival > now then
        if find(value, mine, 17, true) then return 0 end
        ahead, charges = arrival - now, sub(value, 17, 72)
      end
      local wait = ahead - rate.tolerance
      if collapsed and (wait > 0 or newest) and first > (newest or 0) then
        pcall('SET', collapsed, string.format('%.0f', first), 'PX', (unpack('<d', settings)))
      end
      if wait > 0 then return math.ceil(wait / 1000) end
      if rate.interval == 0 then return 0 end
      local stored
      if ahead == 0 then
        stored = pcall('SET', key, rate.first .. mine, 'PX', rate.life)
      else
        ahead = ahead + rate.interval
        stored = pcall('SET', key, string.format('%.0f', now + ahead) .. mine .. charges, 'PX', math.ceil(ahead / 1000))
      end
      return stored.err and stored or 0
    end

    local function admit(device, ask)
      local answered = call('GET', device .. ':d:' .. sub(ask, 18, 39))
      if answered then return answered end
      local mark = call('GET', device .. ':x')
      if mark then
        mark = tonumber(mark)
        if mark and unpack('<d', ask, 10) <= mark then return -mark end
        pcall('DEL', device .. ':x')
      end
      local number = byte(ask)
      if number == 255 then return 0 end
      return charge(device, ask, rates[number] or rate(number))
    end

    local answers
    for index = 1, #KEYS do
      local answer = admit(KEYS[index], ARGV[index])
      if answer ~= 0 then
        if not answers then
          answers = {}
          for other = 1, #KEYS do answers[other] = 0 end
        end
        answers[index] = answer
      end
    end
    return answers or 0
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
