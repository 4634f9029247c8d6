/// The scripts that Redis runs: one decides all about (job, target)s, one remembers a dead token.
///
/// Redelivered while the first delivery is in flight: the rate's value names the last charges (see `RateState`), so the
/// second one proceeds and costs nothing. Key and charges end when the device has its whole burst again.
enum RedisScript {
  /// Admits what a turn of the lane asks for, in one call: the call itself costs Redis as much as a write. What is known of all
  /// of them is read at once, for each further call of a command costs the script more than the command; a single one's one
  /// by one, for in a cluster a slot that is between two nodes takes no command with several keys. Most devices have no rate
  /// yet: theirs is set without a look.
  ///
  /// KEYS: a device each, `<prefix>{<device>}`, to which the script adds what its keys end with. ARGV: an ask each, then the
  /// settings (`RedisAdmissions` writes both). An ask: the rate's number (1 byte, 255: none), charge (8), registered at (Unix
  /// ms), the text of the apns-id (22), and of a job with a collapse id, or one that comes back, the hash of the collapse id
  /// (8, the first one 0: none), first receipt (Unix ms), number of the copy (0: the first). Settings: life of what is kept of delayed
  /// jobs and of copies (ms), then interval and tolerance of each rate (µs; interval 0: no rate but what `tighten` left). Numbers are
  /// little-endian doubles.
  ///
  /// The reply is 0 where all proceed; else a list with an answer for each: 0 = proceed, n > 0 = over its rate for n ms, n < 0 =
  /// dead since -n (Unix ms), a bulk = answered before, with the remembered outcome, an error = proceed, but something could not
  /// be written (a replica, out of memory): that is done last, so the error also says "neither answered nor dead". A status:
  /// `superseded` by a newer job of its collapse id, `repeated n` = 0 or n > 0 as above, but this copy was asked about before.
  ///
  /// The rate's value: theoretical arrival in Unix µs, 16 digits, then charges of 8 bytes, the last one first. The claim's: the
  /// newest copy that was asked about, by its first receipt and its number.
  static let admit = """
    local call, pcall, byte, find, sub, format, number_of =
      redis.call, redis.pcall, string.byte, string.find, string.sub, string.format, struct.unpack
    local settings = ARGV[#KEYS + 1]
    local life = number_of('<d', settings)
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    local rates, names, lifted = {}, {}, {}

    local function rate(number)
      local interval, tolerance = number_of('<dd', settings, 9 + number * 16)
      local known = {
        interval = interval, tolerance = tolerance, suffix = number == 0 and ':r' or ':r' .. number,
        first = format('%.0f', now + interval), life = format('%.0f', math.ceil(interval / 1000))}
      rates[number] = known
      return known
    end

    for index = 1, #KEYS do
      names[index * 2 - 1] = KEYS[index] .. ':d:' .. sub(ARGV[index], 18, 39)
      names[index * 2] = KEYS[index] .. ':x'
    end
    local values
    if #KEYS > 1 then
      values = call('MGET', unpack(names))
    else
      values = {call('GET', names[1]), call('GET', names[2])}
    end

    local function charge(device, ask, rate)
      local key, mine = device .. rate.suffix, sub(ask, 2, 9)
      if #ask == 39 and rate.interval > 0 then
        local stored = pcall('SET', key, rate.first .. mine, 'NX', 'PX', rate.life)
        if stored then return stored.err and stored or 0 end
      end
      local value = call('GET', key)
      local collapsed, first, newest
      if #ask > 39 and byte(ask, 40) ~= 0 then
        collapsed, first = device .. ':c' .. sub(ask, 40, 47), number_of('<d', ask, 48)
        newest = call('GET', collapsed)
        newest = newest and tonumber(newest)
        if newest and newest > first and number_of('<d', ask, 56) > 0 then return redis.status_reply('superseded') end
      end
      local ahead, charges = 0, ''
      local arrival = value and tonumber(sub(value, 1, 16))
      if arrival and arrival > now then
        if find(value, mine, 17, true) then return 0 end
        ahead, charges = arrival - now, sub(value, 17, 72)
      end
      local wait = ahead - rate.tolerance
      if collapsed and (wait > 0 or newest) and first > (newest or 0) then
        pcall('SET', collapsed, format('%.0f', first), 'PX', life)
      end
      if wait > 0 then return math.ceil(wait / 1000) end
      if rate.interval == 0 then return 0 end
      local stored
      if ahead == 0 then
        stored = pcall('SET', key, rate.first .. mine, 'PX', rate.life)
      else
        ahead = ahead + rate.interval
        stored = pcall('SET', key, format('%.0f', now + ahead) .. mine .. charges, 'PX', math.ceil(ahead / 1000))
      end
      return stored.err and stored or 0
    end

    local function claim(device, ask)
      local copy = number_of('<d', ask, 56)
      if copy == 0 then return nil end
      local key, mine = device .. ':a:' .. sub(ask, 18, 39), number_of('<d', ask, 48) * 4096 + math.min(copy, 4095)
      local newest = call('GET', key)
      if newest and tonumber(newest) >= mine then return 'repeated ' end
      local stored = pcall('SET', key, format('%.0f', mine), 'PX', life)
      return stored.err and stored
    end

    local function admit(index)
      local device, ask, answered, mark = KEYS[index], ARGV[index], values[index * 2 - 1], values[index * 2]
      if answered then return answered end
      if mark and not lifted[device] then
        mark = tonumber(mark)
        if mark and number_of('<d', ask, 10) <= mark then return -mark end
        lifted[device] = true
        pcall('DEL', names[index * 2])
      end
      local claimed = #ask > 39 and claim(device, ask)
      local number, answer = byte(ask), 0
      if number ~= 255 then answer = charge(device, ask, rates[number] or rate(number)) end
      if not claimed or type(answer) == 'table' then return answer end
      return type(claimed) == 'table' and claimed or redis.status_reply(claimed .. answer)
    end

    local answers
    for index = 1, #KEYS do
      local answer = admit(index)
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
